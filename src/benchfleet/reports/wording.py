"""The words and numbers that all reports have in common."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.state import STATES

from .ranking import Winner
from .tables import Comparison, Entry, TimeSpent

HIGHER, LOWER, NOT_SURE = "▲", "▼", "≈"
MARKS = (
    f"{HIGHER} significantly higher, {LOWER} significantly lower, {NOT_SURE} no significant "
    "difference (p < 0.05 after Holm's correction)"
)
UNMEASURED = "–"
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode categories that may mislead
_MAX_LISTED_NAMES = 5  # names in a list before the rest is counted
_STAGES = {"load": "loading", "benchmark": "computing"}

Escape = Callable[[str], str]


def one_line(text: str, most: int | None = None) -> str:
    """Text of unknown origin in one line of at most `most` characters, fit to be shown.

    Control characters, bidirectional marks, lone surrogates and their like become escapes.
    """
    line = " ".join(text.split())
    if most is not None and len(line) > most:
        line = line[: most - 1].rstrip() + "…"
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in _INVISIBLE
        else char
        for char in line
    )


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many, the first and how many more."""
    if len(names) > _MAX_LISTED_NAMES:
        rest = len(names) - _MAX_LISTED_NAMES + 1
        names = [*names[: _MAX_LISTED_NAMES - 1], f"{rest} more"]
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def decimals(comparison: Comparison, benchmark: str) -> int:
    """Places after the point: three for scores up to one, one for percentages."""
    means = [abs(e.mean) for e in comparison.entries if e.benchmark == benchmark and e.mean]
    largest = max(means, default=0.0)
    return 3 if largest <= 1 else 2 if largest <= 10 else 1


def score(entry: Entry, decimals: int) -> str:
    """``0.995 ± 0.004``; where there is no result, the states that say why."""
    if entry.mean is None:
        return _states(entry)
    error = "?" if entry.stderr is None else f"{entry.stderr:.{decimals}f}"
    return f"{number(entry.mean, decimals)} ± {error}"


def difference(entry: Entry, decimals: int) -> str:
    """``−0.845 ± 0.026 ▼``; empty where there is none to state."""
    difference = entry.difference
    if difference is None or difference.difference is None:
        return ""
    if difference.p_value is None:
        mark = ""  # not tested
    elif difference.sure:
        mark = f" {HIGHER if difference.significantly_higher else LOWER}"
    else:
        mark = f" {NOT_SURE}"
    error = "?" if difference.stderr is None else f"{difference.stderr:.{decimals}f}"
    return f"{number(difference.difference, decimals, signed=True)} ± {error}{mark}"


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    """``0.995``, ``−0.845``, ``+0.010``; what rounds to 0 has no sign."""
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    if not float(text):
        text = f"{0:.{decimals}f}"
    return text.replace("-", "−")


def interval(entry: Entry, decimals: int) -> str:
    """``−0.896 to −0.794``, where 95 % of such intervals hold the difference; or empty."""
    bounds = entry.difference and entry.difference.interval
    return " to ".join(number(end, decimals, signed=True) for end in bounds) if bounds else ""


def shortfall(entry: Entry) -> str:
    """``1 of 2: 1 failed`` where a shown score lacks some of the repeats, or empty."""
    if entry.mean is None or entry.repeats_done == entry.repeats_expected:
        return ""
    return f"{entry.repeats_done} of {entry.repeats_expected}: {_states(entry)}"


def density(entry: Entry) -> str:
    """``0.063``, or empty where none was measured."""
    return "" if entry.density is None else f"{entry.density:.3f}"


def speed(entry: Entry) -> str:
    """``412 tok/s``, or empty if it is unknown."""
    if not entry.tokens_per_second:
        return ""
    rate = entry.tokens_per_second
    return f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"


def counts(comparison: Comparison) -> str:
    """``30 cells: 28 success, 1 pending, 1 failed``."""
    parts = [f"{comparison.counts[state]} {state}" for state in STATES if comparison.counts[state]]
    total = comparison.counts["total"]
    return f"{counted(total, 'cell')}: {', '.join(parts)}" if parts else "no cells"


def verdicts(comparison: Comparison, escape: Escape) -> Iterator[str]:
    """A sentence or two for each model: what leads where, and whether that is significant."""
    groups: dict[tuple[object, ...], list[Winner]] = {}
    for winner in comparison.winners:
        key = (
            winner.model,
            winner.config,
            winner.better_than,
            winner.not_different_from,
            winner.not_compared_with,
            winner.without_result,
            winner.tied_with,
        )
        groups.setdefault(key, []).append(winner)
    for members in groups.values():
        first = members[0]
        model = f"{escape(first.model)} on " if len(comparison.models) > 1 else ""
        where = listed([escape(winner.benchmark) for winner in members])
        yield f"{model}{where}: {_verdict(first, escape)}"


def _verdict(winner: Winner, escape: Escape) -> str:
    def names(configs: Sequence[str]) -> str:
        return listed([escape(config) for config in configs])

    config, better = escape(winner.config), winner.better_than
    equal = [name for name in winner.not_different_from if name not in winner.tied_with]
    if winner.tied_with and not winner.ties:
        text = f"{names((winner.config, *winner.tied_with))} have the highest mean"
        text += f"; {config} is significantly higher than {names(better)}" if better else ""
        text += f"; no significant difference from {names(equal)}." if equal else "."
    elif better and equal:
        text = (
            f"{config} has the highest mean, significantly higher than {names(better)}; "
            f"no significant difference from {names(equal)}."
        )
    elif better:
        text = f"{config} is significantly higher than {names(better)}."
    elif winner.ties:
        text = f"{names((winner.config, *winner.tied_with))} have the same mean."
    elif equal:
        text = f"{config} has the highest mean; no significant difference from {names(equal)}."
    elif winner.not_compared_with:
        text = f"{config} has the highest mean."
    else:
        text = f"{config} is the only config with a result."
    if winner.not_compared_with:
        text += f" Too few shared samples to compare with {names(winner.not_compared_with)}."
    if winner.without_result:
        text += f" No result: {names(winner.without_result)}."
    return text


def led(comparison: Comparison, escape: Escape) -> str:
    """``dense leads 12 of 20, 3 significantly; top_k leads 8 of 20.``, the most first."""
    leads = Counter(winner.config for winner in comparison.winners if not winner.ties)
    sure = Counter(winner.config for winner in comparison.winners if winner.is_sure)
    total = len(comparison.winners)
    parts = [
        f"{escape(config)} leads {count} of {total}"
        + (f", {sure[config]} significantly ahead of all others" if sure[config] else "")
        for config, count in leads.most_common(_MAX_LISTED_NAMES)
    ]
    if len(leads) > _MAX_LISTED_NAMES:
        parts.append(f"{len(leads) - _MAX_LISTED_NAMES} more lead the rest")
    if ties := total - leads.total():
        parts.append(f"{ties} of {total} {'is a tie' if ties == 1 else 'are ties'}")
    return "; ".join(parts) + "."


def legend(comparison: Comparison, escape: Escape) -> str:
    """What the lines of a cell and the marks mean, as far as they occur."""
    text = "Mean ± standard error of all repeats."
    if any(difference(entry, 0) for entry in comparison.entries):
        text += (
            f" Below: the difference to {escape(comparison.baseline)} on the same samples, {MARKS}."
        )
    if any(shortfall(entry) for entry in comparison.entries):
        text += " 1 of 2: that many repeats have a result so far."
    if any(
        score(entry, 3).endswith("?") or difference(entry, 3).endswith("?")
        for entry in comparison.entries
    ):
        text += " ± ?: only one value."
    costs = []
    if any(entry.density is not None for entry in comparison.entries):
        costs.append("attention density (1 reads every key)")
    if any(entry.tokens_per_second for entry in comparison.entries):
        costs.append("speed")
    return f"{text} Last: {', '.join(costs)}." if costs else text


METHOD = (
    "The standard error is s/√n over the distinct samples of all repeats, treated as independent. "
    "A sample that several repeats share is one value, its mean. "
    "Differences are paired by sample (arXiv 2411.00640). "
    "Significant means p < 0.05 in a two-sided paired t-test with Holm's correction. "
    "The correction covers all differences to the baseline. If another config leads, a second one "
    "covers all pairs of the other configs. Each keeps the family-wise error rate at 5 % or less. "
    "± 0 means that all samples have the same score, not that the score is exact. "
    "± ? means that there is only one value."
)


OVERVIEW = (
    "The mean is over the benchmarks with scores from 0 to 1 where all configs of a model have a "
    "result. Leads: benchmarks where the config has the highest mean, significant or not."
)


def by_stage(*spent: TimeSpent) -> dict[str, float]:
    """Seconds by stage, in the words of people: loading, computing."""
    total: dict[str, float] = {}
    for one in spent:
        for stage, value in one.seconds.items():
            name = _STAGES.get(stage, stage)
            total[name] = total.get(name, 0.0) + value
    return total


def time_spent(comparison: Comparison, escape: Escape) -> str:
    """``loading 12 s, computing 3 min 20 s; the longest was …``, or empty."""
    total = by_stage(*comparison.time)
    if not total:
        return ""
    parts = [f"{escape(name)} {duration(value)}" for name, value in total.items()]
    longest = max(comparison.time, key=_computing)
    name = f"{escape(longest.model)} × " if len(comparison.models) > 1 else ""
    text = f"{', '.join(parts)} (summed over slots)"
    if len(comparison.time) > 1:
        text += (
            f"; {name}{escape(longest.config)} computed longest, {duration(_computing(longest))}"
        )
    return text + "."


def _computing(spent: TimeSpent) -> float:
    """Without loading: configs share a loaded model, and the first one to run loads it."""
    return sum(seconds for stage, seconds in spent.seconds.items() if stage != "load")


def _states(entry: Entry) -> str:
    """``failed`` where all repeats are, else ``1 failed, 1 pending`` without the successes."""
    states = [(state, entry.states[state]) for state in STATES if entry.states.get(state)]
    if len(states) == 1:
        return states[0][0]
    return ", ".join(f"{count} {state}" for state, count in states if state != "success")
