"""The contender that leads a benchmark or a suite, and the others against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .detectable_effect import detectable
from .statistics import Difference

Contender = tuple[str, str]  # model, config


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The contender that ranks highest in one benchmark, and the others against it. Its mean is the
    highest, or is so over the values that are shared.

    Contenders are the configs of one model, or all models × configs. Each has a name: its config
    or its model if only that tells contenders apart, else both.
    """

    benchmark: str
    model: str
    config: str
    name: str
    mean: float
    stderr: float | None
    better_than: tuple[str, ...]  # significantly
    not_different_from: tuple[str, ...]
    not_compared_with: tuple[str, ...]  # fewer than two samples are shared
    without_result: tuple[str, ...]
    tied_with: tuple[str, ...]  # those with the same mean
    next_best: str  # the best of `better_than`, or ""
    lead: Difference | None  # the leader less the next best
    detectable: float | None  # the difference that all tests of `not_different_from` would find
    leads_on_shared: bool  # another has a higher mean, by values that the leader lacks
    too_few_samples: bool  # `detectable` is above 1, and scores are from 0 to 1: nothing is found

    @property
    def ties(self) -> bool:
        """Whether all contenders with a result have the same mean."""
        others = {*self.better_than, *self.not_different_from, *self.not_compared_with}
        return bool(others) and others == set(self.tied_with)

    @property
    def is_sure(self) -> bool:
        """It is significantly better than every other contender that has a result."""
        others = self.not_different_from or self.not_compared_with
        return bool(self.better_than) and not others


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How one contender stands: its mean, and what ranks it among the others."""

    mean: float
    stderr: float | None
    rank: float  # the mean over comparable values, see `pooling.ranks`


def winner(
    benchmark: str,
    standings: Mapping[Contender, Standing],
    everyone: Sequence[Contender],
    baseline: str,
    differ: Callable[[Contender, Contender], Difference],
    names: Mapping[Contender, str],
    scores: Iterable[float],
) -> Winner:
    """The contender that stands highest, of equals the baseline, with the others against it.
    `scores` are all single scores that they have."""
    leader = max(standings, key=lambda one: (standings[one].rank, one[1] == baseline))
    better: dict[Contender, Difference] = {}
    equal: dict[Contender, Difference] = {}
    unknown: list[str] = []
    for contender in standings:
        if contender == leader:
            continue
        difference = differ(leader, contender)
        if difference.p_value is None:
            unknown.append(names[contender])
        elif difference.significantly_higher:
            better[contender] = difference
        else:
            equal[contender] = difference
    closest = max(better, key=lambda one: standings[one].rank, default=None)
    smallest = max(
        (detectable(d.stderr, d.freedom, family=d.family) for d in equal.values() if d.stderr),
        default=None,
    )
    top = standings[leader]  # a rank is of shared samples alone: means may differ where some lack
    tied = [
        one
        for one, other in standings.items()
        if one != leader and (other.rank, other.mean) == (top.rank, top.mean)
    ]
    return Winner(
        benchmark=benchmark,
        model=leader[0],
        config=leader[1],
        name=names[leader],
        mean=top.mean,
        stderr=top.stderr,
        better_than=tuple(names[one] for one in better),
        not_different_from=tuple(names[one] for one in equal),
        not_compared_with=tuple(unknown),
        without_result=tuple(names[one] for one in everyone if one not in standings),
        tied_with=tuple(names[one] for one in tied),
        next_best=names[closest] if closest else "",
        lead=better[closest] if closest else None,
        detectable=smallest,
        leads_on_shared=any(
            other.mean > top.mean and not math.isclose(other.mean, top.mean)
            for other in standings.values()
        ),
        too_few_samples=bool(smallest and smallest > 1)
        and all(0 <= score <= 1 for score in scores),
    )


def names_of(contenders: Iterable[Contender]) -> dict[Contender, str]:
    """What tells these apart: their configs, their models, or both."""
    contenders = [*contenders]
    if len({model for model, _ in contenders}) == 1:
        return {one: one[1] for one in contenders}
    if len({config for _, config in contenders}) == 1:
        return {one: one[0] for one in contenders}
    return {one: " × ".join(one) for one in contenders}
