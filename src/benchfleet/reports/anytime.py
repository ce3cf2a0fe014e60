"""Tests and intervals of paired differences that hold at every look, as pure functions.

A bettor wagers that a config is worse than another: each difference d in [-1, 1], ours less
theirs, multiplies the wealth by 1 - λd. If the config is not worse, so that the mean of d is 0 or
more, no bettor expects to gain. Then the wealth ever exceeds 1/α with a probability of at most α
(Ville 1939), however often and whenever somebody looks. The bets λ are a fixed mixture over a
grid, so that nothing is tuned and the order of the differences does not matter. The interval holds
all means that the same bets do not reject (Waudby-Smith and Ramdas 2024, JRSS-B 86, 1-27).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_BETS = tuple(0.98 * 2 ** (-step / 2) for step in range(14))  # from 0.98 to 0.011
_PRECISION = 1e-5  # of a bound


@dataclass(frozen=True, kw_only=True)
class AnytimeDifference:
    """The mean of paired differences, with an interval that holds at every look."""

    samples: int  # independent differences
    difference: float
    counts: Mapping[float, int]  # how often each difference occurred
    limit: float  # the logarithm of the wealth at which a mean is rejected

    @cached_property
    def is_worse(self) -> bool:
        """The whole interval is below 0."""
        return log_wealth(self.counts) >= self.limit

    @cached_property
    def interval(self) -> tuple[float, float]:
        """All means that are not rejected."""
        opposite = {-value: count for value, count in self.counts.items()}
        upper = _upper_bound(self.counts, self.limit)
        lower = -_upper_bound(opposite, self.limit)
        return min(lower, self.difference), max(upper, self.difference)


def anytime_difference(differences: Sequence[float], alpha: float) -> AnytimeDifference:
    """The mean of independent differences in [-1, 1], at least one, with its interval.

    Each bound is wrong with a probability of at most `alpha`, at all looks together. Raises
    ValueError for no differences, or for one outside [-1, 1].
    """
    if not differences:
        raise ValueError("no differences: give at least one")
    counts = Counter(differences)
    if min(counts) < -1 or max(counts) > 1:
        raise ValueError("differences outside -1 to 1: use scores from 0 to 1")
    return AnytimeDifference(
        samples=len(differences),
        difference=_mean(differences),
        counts=counts,
        limit=-math.log(alpha),
    )


def log_wealth(counts: Mapping[float, int], mean: float = 0.0) -> float:
    """The logarithm of the bettor's wealth, if the bets are fair for this mean, in [-1, 1).

    `counts` is how often each difference occurred. The wealth grows with `mean`.
    """
    logs = []
    for bet in _BETS:
        share = bet / (1 - mean)  # so that no difference of 1 takes more than the bet
        logs.append(math.fsum(k * math.log1p(-share * (d - mean)) for d, k in counts.items()))
    most = max(logs)
    return most + math.log(math.fsum(math.exp(one - most) for one in logs) / len(logs))


def _upper_bound(counts: Mapping[float, int], limit: float) -> float:
    """The largest mean that is not rejected; 1 if none is."""
    low, high = -1.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        if log_wealth(counts, middle) >= limit:
            high = middle
        else:
            low = middle
    return high


def paired_units(
    ours: Sequence[Mapping[str, float]],
    theirs: Sequence[Mapping[str, float]],
    contexts: Mapping[str, str],
) -> list[float]:
    """The differences of independent units, from the scores by sample id of the same repeats.

    Samples that share a context are one unit, their mean; `contexts` names it by sample id. Where
    each repeat asks all units of the others again, a unit counts once, with the mean of its
    answers: a reverse martingale, for which the wealth is bounded as well. Otherwise a unit counts
    with the answers of the repeat that asked it first.
    """
    repeats = [_by_unit(*pair, contexts) for pair in zip(ours, theirs, strict=True)]
    repeats = [units for units in repeats if units]
    asks_again = all(units.keys() == repeats[0].keys() for units in repeats)
    values: dict[tuple[bool, str], list[float]] = {}
    for units in repeats:
        for unit, differences in units.items():
            if asks_again or unit not in values:
                values.setdefault(unit, []).extend(differences)
    return [_mean(some) for some in values.values()]


def _by_unit(
    ours: Mapping[str, float], theirs: Mapping[str, float], contexts: Mapping[str, str]
) -> dict[tuple[bool, str], list[float]]:
    units: dict[tuple[bool, str], list[float]] = {}
    for sample in ours.keys() & theirs.keys():
        unit = (True, contexts[sample]) if sample in contexts else (False, sample)
        units.setdefault(unit, []).append(ours[sample] - theirs[sample])
    return units


def _mean(values: Collection[float]) -> float:
    return math.fsum(values) / len(values)
