"""How many samples of each benchmark would show a difference of a given size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.humanize import counted
from benchfleet.reports.detectable_effect import detectable, samples_to_detect
from benchfleet.reports.ranking import Pair
from benchfleet.reports.tables import Comparison, Entry

# Of the differences of two independent scores of 0 and 1 at an accuracy of 0.5: the most there is
# without a negative correlation, as paired scores of one sample hardly have.
ASSUMED_DEVIATION = math.sqrt(0.5)


@dataclass(frozen=True, kw_only=True)
class Power:
    """What one benchmark needs to show an effect, in 80 % of repetitions (p < 0.05, two-sided)."""

    benchmark: str
    effect: float
    needed: int  # samples
    samples: int | None  # that its results have; None without a result
    detectable: float | None  # the difference that those show
    too_few_samples: bool  # it is above 1, and scores are from 0 to 1: they show none
    deviation: float  # of the paired differences of single samples
    pairs: int  # that the deviation was measured on; 0: it is assumed

    def __str__(self) -> str:
        text = f"{self.benchmark} needs {counted(self.needed, 'sample')}"
        if self.too_few_samples:
            text += f"; its {self.samples} are too few to show any difference"
        elif self.detectable is not None:
            text += f"; its {self.samples} show differences from {self.detectable:.3g}"
        if not self.pairs:
            text += "; assumed: independent scores of 0 and 1, since no differences vary yet"
        return text

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return dict(vars(self))


def power(comparison: Comparison, effect: float) -> list[Power]:
    """What each benchmark of the campaign needs, whose results so far say how scores vary.

    The deviation is the largest of the compared pairs. Where samples share contexts it is that of
    as many independent samples. Raises ValueError if the effect is not above 0.
    """
    pairs: dict[str, list[Pair]] = {}
    for pair in comparison.pairs:
        if pair.difference.stderr:
            pairs.setdefault(pair.benchmark, []).append(pair)
    entries: dict[str, list[Entry]] = {}
    for entry in comparison.entries:
        entries.setdefault(entry.benchmark, []).append(entry)
    return [
        _power(benchmark, effect, pairs.get(benchmark, ()), entries[benchmark])
        for benchmark in comparison.benchmarks
    ]


def _power(benchmark: str, effect: float, pairs: Sequence[Pair], entries: Sequence[Entry]) -> Power:
    measured = [(p.difference.stderr or 0.0) * math.sqrt(p.difference.n) for p in pairs]
    deviation = max(measured, default=ASSUMED_DEVIATION)
    samples = max((pair.difference.n for pair in pairs), default=0)
    samples = samples or max((entry.samples for entry in entries), default=0)
    error = deviation / math.sqrt(samples) if samples else 0.0
    smallest = detectable(error, samples - 1) if samples > 1 else None
    is_binary = all(pair.difference.test == "mcnemar" for pair in pairs)  # assumed without pairs
    is_share = all(0 <= entry.mean <= 1 for entry in entries if entry.mean is not None)
    return Power(
        benchmark=benchmark,
        effect=effect,
        needed=samples_to_detect(effect, deviation, is_binary=is_binary),
        samples=samples or None,
        detectable=smallest,
        too_few_samples=bool(smallest and smallest > 1) and is_share,
        deviation=deviation,
        pairs=len(pairs),
    )
