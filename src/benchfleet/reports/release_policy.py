"""A verdict over changes: GO, NO-GO or INCONCLUSIVE, by non-inferiority with a policy's margins.

A change is non-inferior if the lower end of its 95 % interval is above the largest drop that the
policy accepts, and inferior if the upper end is below it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from benchfleet.domain.name_patterns import matches
from benchfleet.errors import CampaignError, Mistake

from .estimates import Z
from .side_by_side import Change

Level = Literal["critical", "supporting", "advisory"]
Verdict = Literal["GO", "NO-GO", "INCONCLUSIVE"]
_MAX_GROWTH = 1e6  # more samples than this many times those that are here are never to be had
_KEYS = ("benchmark", "level", "max_drop", "max_relative_drop")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What drop is accepted on benchmarks whose name matches."""

    benchmark: str  # a pattern
    level: Level
    max_drop: float | None = None  # in the score's own unit
    max_relative_drop: float | None = None  # a share of the first side's mean

    def margin(self, before: float) -> float:
        """The accepted drop; the smaller one where both are given."""
        margins = [
            self.max_drop,
            None if self.max_relative_drop is None else self.max_relative_drop * abs(before),
        ]
        return min(margin for margin in margins if margin is not None)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on one change."""

    change: Change
    rule: Rule
    verdict: Verdict
    margin: float | None  # the accepted drop; None without a result before
    more_samples: int | None  # that would decide, if the difference stays; None if unknown

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        change = self.change
        return {
            "name": change.name,
            "model": change.model,
            "config": change.config,
            "benchmark": change.benchmark,
            "is_suite": change.is_suite,
            "rule": self.rule.benchmark,
            "level": self.rule.level,
            "verdict": self.verdict,
            "margin": self.margin,
            "more_samples": self.more_samples,
            "difference": change.difference.difference,
            "interval": list(change.difference.interval) if change.difference.interval else None,
            "unseen": change.unseen if math.isfinite(change.unseen) else None,
            "remark": change.remark,
        }


def read_policy(content: object, *, file: str) -> tuple[Rule, ...]:
    """The rules of a policy file. Raises `CampaignError` with every mistake."""
    mistakes: list[Mistake] = []
    entries = content.get("rules") if isinstance(content, Mapping) else None
    if not isinstance(entries, list) or not entries:
        example = "rules: [{benchmark: '*', level: critical, max_drop: 0.01}]"
        raise CampaignError(file, [Mistake(key="rules", message=f"is not a list; write {example}")])
    rules = [_rule(entry, f"rules[{n}]", mistakes) for n, entry in enumerate(entries)]
    if mistakes:
        raise CampaignError(file, mistakes)
    return tuple(rule for rule in rules if rule)


def judge(changes: Sequence[Change], rules: Sequence[Rule]) -> tuple[Judgement, ...]:
    """The verdict on each change by the first rule that matches its benchmark; others have none."""
    judgements = []
    for change in changes:
        rule = next((r for r in rules if matches([r.benchmark], change.benchmark)), None)
        if rule:
            judgements.append(_judgement(change, rule))
    return tuple(judgements)


def overall(judgements: Sequence[Judgement], rules: Sequence[Rule]) -> Verdict:
    """NO-GO if a critical change is. Else INCONCLUSIVE if a critical change is, a supporting one is
    NO-GO, or a critical rule matches nothing. Else GO. Advisory rules never count."""
    critical = [one for one in judgements if one.rule.level == "critical"]
    supporting = [one for one in judgements if one.rule.level == "supporting"]
    idle = any(r.level == "critical" and all(j.rule is not r for j in judgements) for r in rules)
    if any(one.verdict == "NO-GO" for one in critical):
        return "NO-GO"
    undecided = any(one.verdict == "INCONCLUSIVE" for one in critical)
    if undecided or idle or any(one.verdict == "NO-GO" for one in supporting) or not judgements:
        return "INCONCLUSIVE"
    return "GO"


def _judgement(change: Change, rule: Rule) -> Judgement:
    difference, before = change.difference, change.before
    if before is None or difference.difference is None or difference.stderr is None:
        margin = None if before is None else rule.margin(before)
        return Judgement(
            change=change, rule=rule, verdict="INCONCLUSIVE", margin=margin, more_samples=None
        )
    margin, middle = rule.margin(before), difference.difference
    verdict = _verdict(difference.interval or (middle, middle), change.unseen, margin)
    more = _more_samples(change, margin) if verdict == "INCONCLUSIVE" else None
    return Judgement(change=change, rule=rule, verdict=verdict, margin=margin, more_samples=more)


def _verdict(interval: tuple[float, float], unseen: float, margin: float) -> Verdict:
    if interval[0] - unseen > -margin:
        return "GO"
    return "NO-GO" if interval[1] + unseen < -margin else "INCONCLUSIVE"


def _more_samples(change: Change, margin: float) -> int | None:
    """About how many more samples would decide if they show what these do, in all parts and
    contexts alike; None if that many are not to be had."""
    difference, unseen = change.difference, change.unseen
    n, estimate = difference.n, difference.estimate
    if estimate is None or math.isinf(unseen):
        return None

    def decides(count: int) -> bool:
        growth = count / n
        # What no sample showed shrinks from z²/(n + z²) to z²/(count + z²).
        still_unseen = unseen / (unseen + growth * (1 - unseen)) if unseen else 0.0
        interval = estimate.grown(growth).interval(Z)
        return _verdict(interval, still_unseen, margin) != "INCONCLUSIVE"

    low, high = n, 2 * n  # the first is too few
    while not decides(high):
        low, high = high, 2 * high
        if high > _MAX_GROWTH * n:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high - n


def _rule(entry: object, key: str, mistakes: list[Mistake]) -> Rule | None:
    if not isinstance(entry, Mapping):
        mistakes.append(
            Mistake(key=key, message="is not a rule; write {benchmark: …, max_drop: …}")
        )
        return None
    count = len(mistakes)
    for name in entry:
        if name not in _KEYS:
            known_keys = ", ".join(_KEYS)
            mistakes.append(Mistake(key=f"{key}.{name}", message=f"unknown key; use {known_keys}"))
    level = entry.get("level", "critical")
    if level not in get_args(Level):
        levels = ", ".join(get_args(Level))
        mistakes.append(
            Mistake(key=f"{key}.level", message=f"unknown level {level!r}; use {levels}")
        )
    benchmark = entry.get("benchmark", "*")
    if not isinstance(benchmark, str):
        message = f"invalid name {benchmark!r}; write one name or glob, and a rule for each"
        mistakes.append(Mistake(key=f"{key}.benchmark", message=message))
    drops = {name: _drop(entry, key, name, mistakes) for name in _KEYS[2:]}
    if not any(name in entry for name in drops):
        message = "has no margin; add max_drop or max_relative_drop"
        mistakes.append(Mistake(key=key, message=message))
    if len(mistakes) > count:
        return None
    return Rule(benchmark=str(benchmark), level=cast(Level, level), **drops)


def _drop(entry: Mapping[str, Any], key: str, name: str, mistakes: list[Mistake]) -> float | None:
    if name not in entry:
        return None
    value, factor = entry[name], 1.0
    if isinstance(value, str) and value.strip().endswith("%"):
        value, factor = value.strip()[:-1], 0.01
    try:
        drop = math.nan if isinstance(value, bool) else float(value) * factor
    except (TypeError, ValueError):
        drop = math.nan
    if name == "max_relative_drop" and drop > 1:
        advice = "write 100% at most" if factor < 1 else f"write {value}% for a percentage"
        message = f"{entry[name]!r} is more than all; {advice}"
        mistakes.append(Mistake(key=f"{key}.{name}", message=message))
    elif not drop >= 0 or math.isinf(drop):
        message = f"invalid drop {entry[name]!r}; use a number from 0, such as 0.01 or 1%"
        mistakes.append(Mistake(key=f"{key}.{name}", message=message))
    return drop
