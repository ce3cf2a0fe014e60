"""How the answers of each model × config × benchmark ended, and what that says of its score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.humanize import examples
from benchfleet.domain.question_draws import is_draw_metric
from benchfleet.domain.sample_end import ENDS, SAME_ANSWER, SCORE_STOP, share_name

MAX_LENGTH, MAX_UNPARSED, MAX_SAME = 0.05, 0.20, 0.90  # shares; a report warns above
TRUNCATED = "truncated"  # the measure of adapters that cut
MAX_WARNINGS = 6  # of the first screen; the rest is counted
HEADS = ("score", "over stop", *ENDS[1:])
LEGEND = (
    "How answers ended: length is cut off, unparsed holds no answer to score, refused was "
    "filtered, error failed for good. All count; 'over stop' leaves them out."
)


@dataclass(frozen=True, kw_only=True)
class Endings:
    """The shares of the samples of pooled repeats, by how they ended."""

    shares: Mapping[str, float] = field(default_factory=dict)  # those but stop that occur
    score_stop: float | None = None  # the score over `stop`; None where it is that of all
    draws: Mapping[str, float] = field(default_factory=dict)  # pass@k, maj@k, … of several answers
    same_answer: float = 0.0  # the share of the most frequent answer; 0 of few questions
    truncated: float = 0.0  # the share of the prompts that were too long, and were cut

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "shares": dict(self.shares),
            "score_stop": self.score_stop,
            "draws": dict(self.draws),
            "same_answer": self.same_answer,
            "truncated": self.truncated,
        }


def endings_of(outcomes: Sequence[Outcome]) -> Endings:
    """Of repeats, each weighted by its samples."""
    weighted = [
        (float(one.metrics.get("samples", 0)), one.metrics)
        for one in outcomes
        if one.metrics.get("samples")
    ]

    def pooled(name: str, default: str = "") -> float:
        values = [(n, float(m.get(name, m.get(default, 0.0)))) for n, m in weighted]
        total = math.fsum(n for n, _ in values)
        return math.fsum(n * value for n, value in values) / total if total else 0.0

    names = dict.fromkeys(name for one in outcomes for name in one.metrics)
    by_end = {end: pooled(name) for end in ENDS[1:] if (name := share_name(end)) in names}
    return Endings(
        shares={end: share for end, share in by_end.items() if share},
        score_stop=pooled(SCORE_STOP, "overall_score") if SCORE_STOP in names else None,
        draws={name: pooled(name) for name in names if is_draw_metric(name)},
        same_answer=pooled(SAME_ANSWER) if SAME_ANSWER in names else 0.0,
        truncated=pooled(TRUNCATED) if TRUNCATED in names else 0.0,
    )


def warnings(named: Iterable[tuple[str, Endings]]) -> Iterator[str]:
    """A sentence for each share that makes a score doubtful; `named` are ``model / config /
    benchmark`` with their endings."""
    for name, endings in named:
        shares = (endings.shares.get(end, 0.0) for end in ("length", "unparsed", "empty"))
        length, unparsed, empty = shares
        if length > MAX_LENGTH:
            yield (
                f"{name}: {length:.0%} of the answers were cut off by length; "
                "raise max_new_tokens, or the score is too low"
            )
        if unparsed > MAX_UNPARSED:
            yield (
                f"{name}: no answer was found in {unparsed:.0%} of the texts; "
                "look at some in its samples.jsonl"
            )
        if empty > MAX_UNPARSED:
            yield f"{name}: {empty:.0%} of the answers are empty; look at its prompts and adapter"
        if endings.same_answer > MAX_SAME:
            yield (
                f"{name}: one answer was given to {endings.same_answer:.0%} of the questions; "
                "the score says little about the model"
            )


def truncation_warning(shares: Mapping[str, float]) -> tuple[str, ...]:
    """One sentence on all prompts that were cut; `shares` are by ``model / benchmark``."""
    cut = [f"{name} ({share:.0%} of the prompts)" for name, share in shares.items() if share]
    if not cut:
        return ()
    return (
        f"longer than the model takes, so a part was cut out: {examples(cut)}; a low score "
        "may come from that",
    )


def first_warnings(named: Iterable[tuple[str, Endings]]) -> tuple[str, ...]:
    """The warnings of a first screen, and how many more there are."""
    every = list(warnings(named))
    rest = len(every) - MAX_WARNINGS
    more = [f"and {rest} more warnings of this kind; see how the answers ended"] if rest > 0 else []
    return (*every[:MAX_WARNINGS], *more)
