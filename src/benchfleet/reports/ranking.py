"""Which config leads each model × benchmark, and which differences are sure.

Two families of comparisons are made, each with Holm's correction over the whole report. Every
config against the baseline is planned beforehand, so it stays right whichever of them are then
spoken of. Who leads is known only afterwards: a leader other than the baseline is compared to
the rest as the one pick among all pairs of them that it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .pooling import Row
from .statistics import Difference, holm, mean, paired_difference

Place = tuple[str, str, str]  # model, benchmark, config


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The config with the highest mean of one model × benchmark, and the others against it."""

    model: str
    benchmark: str
    config: str
    better_than: tuple[str, ...]  # surely
    not_told_apart_from: tuple[str, ...]
    not_compared_with: tuple[str, ...]  # fewer than two samples are shared
    without_result: tuple[str, ...]
    ties: bool  # all that have a result have the same mean

    @property
    def is_sure(self) -> bool:
        """It is surely better than every other config that has a result."""
        others = self.not_told_apart_from or self.not_compared_with
        return bool(self.better_than) and not others


def against_baseline(rows: Sequence[Row], baseline: str) -> dict[Place, Difference]:
    """Every config with values less the baseline, where the baseline has values too."""
    found = {}
    for row in rows:
        values = row.measured()
        for config in values:
            if config != baseline and baseline in values:
                place = (row.model, row.benchmark, config)
                found[place] = paired_difference(values[config], values[baseline])
    return _corrected(found, family=None)


def winners(
    rows: Sequence[Row], baseline: str, planned: Mapping[Place, Difference]
) -> tuple[Winner, ...]:
    """The leader of each row that has values; `planned` holds the differences to the baseline."""
    led = [(row, _leader(row, baseline)) for row in rows if row.measured()]
    unplanned = {
        (row.model, row.benchmark, config): paired_difference(row.measured()[leader], values)
        for row, leader in led
        for config, values in row.measured().items()
        if config != leader and baseline not in {config, leader}
    }
    pairs = sum(math.comb(len(row.measured().keys() - {baseline}), 2) for row, _ in led)
    unplanned = _corrected(unplanned, family=pairs)
    return tuple(_winner(row, leader, baseline, planned, unplanned) for row, leader in led)


def _means(row: Row) -> dict[str, float]:
    """Over the values that all have, or over each one's own where none are shared."""
    measured = row.measured()
    shared = set.intersection(*(set(values) for values in measured.values()))
    return {
        config: mean([values[key] for key in shared or values])
        for config, values in measured.items()
    }


def _leader(row: Row, baseline: str) -> str:
    """The highest mean; of equals the baseline, then the first."""
    means = _means(row)
    return max(means, key=lambda config: (means[config], config == baseline))


def _winner(
    row: Row,
    leader: str,
    baseline: str,
    planned: Mapping[Place, Difference],
    unplanned: Mapping[Place, Difference],
) -> Winner:
    measured = row.measured()
    better: list[str] = []
    alike: list[str] = []
    unknown: list[str] = []
    for config in measured:
        if config == leader:
            continue
        if leader == baseline:
            found = planned[row.model, row.benchmark, config]
            beaten = found.surely_lower
        elif config == baseline:
            found = planned[row.model, row.benchmark, leader]
            beaten = found.surely_higher
        else:
            found = unplanned[row.model, row.benchmark, config]
            beaten = found.surely_higher
        (unknown if found.p_value is None else better if beaten else alike).append(config)
    return Winner(
        model=row.model,
        benchmark=row.benchmark,
        config=leader,
        better_than=tuple(better),
        not_told_apart_from=tuple(alike),
        not_compared_with=tuple(unknown),
        without_result=tuple(config for config in row.pools if config not in measured),
        ties=len(measured) > 1 and len(set(_means(row).values())) == 1,
    )


def _corrected(
    differences: Mapping[Place, Difference], *, family: int | None
) -> dict[Place, Difference]:
    """The same with Holm's correction; those without a p-value stay as they are."""
    tested = {place: d.p_value for place, d in differences.items() if d.p_value is not None}
    adjusted = dict(zip(tested, holm([*tested.values()], family=family), strict=True))
    return {
        place: replace(difference, adjusted_p=adjusted.get(place))
        for place, difference in differences.items()
    }
