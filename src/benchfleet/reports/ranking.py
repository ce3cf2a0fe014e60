"""The leading config of each model × benchmark, and which differences are significant.

There are two families of comparisons, each with Holm's correction over the whole report. The
comparisons with the baseline are planned in advance. The leader is known only afterwards, so a
leader other than the baseline is corrected for all pairs of the other configs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .pooling import Row
from .statistics import Difference, holm, mean, paired_difference

PairKey = tuple[str, str, str]  # model, benchmark, config


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The config with the highest mean of one model × benchmark, and the others against it."""

    model: str
    benchmark: str
    config: str
    better_than: tuple[str, ...]  # significantly
    not_different_from: tuple[str, ...]
    not_compared_with: tuple[str, ...]  # fewer than two samples are shared
    without_result: tuple[str, ...]
    tied_with: tuple[str, ...]  # configs with the same mean

    @property
    def ties(self) -> bool:
        """Whether all configs with a result have the same mean."""
        others = {*self.better_than, *self.not_different_from, *self.not_compared_with}
        return bool(others) and others == set(self.tied_with)

    @property
    def is_sure(self) -> bool:
        """It is significantly better than every other config that has a result."""
        others = self.not_different_from or self.not_compared_with
        return bool(self.better_than) and not others


def against_baseline(rows: Sequence[Row], baseline: str) -> dict[PairKey, Difference]:
    """Every config with values less the baseline, where the baseline has values too."""
    differences = {}
    for row in rows:
        values = row.measured()
        for config in values:
            if config != baseline and baseline in values:
                key = (row.model, row.benchmark, config)
                differences[key] = paired_difference(values[config], values[baseline])
    return _corrected(differences, family=None)


def winners(
    rows: Sequence[Row], baseline: str, planned: Mapping[PairKey, Difference]
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
    planned: Mapping[PairKey, Difference],
    unplanned: Mapping[PairKey, Difference],
) -> Winner:
    measured, means = row.measured(), _means(row)
    better: list[str] = []
    equal: list[str] = []
    unknown: list[str] = []
    for config in measured:
        if config == leader:
            continue
        if leader == baseline:
            pair = planned[row.model, row.benchmark, config]
            beaten = pair.significantly_lower
        elif config == baseline:
            pair = planned[row.model, row.benchmark, leader]
            beaten = pair.significantly_higher
        else:
            pair = unplanned[row.model, row.benchmark, config]
            beaten = pair.significantly_higher
        (unknown if pair.p_value is None else better if beaten else equal).append(config)
    return Winner(
        model=row.model,
        benchmark=row.benchmark,
        config=leader,
        better_than=tuple(better),
        not_different_from=tuple(equal),
        not_compared_with=tuple(unknown),
        without_result=tuple(config for config in row.pools if config not in measured),
        tied_with=tuple(c for c in measured if c != leader and means[c] == means[leader]),
    )


def _corrected(
    differences: Mapping[PairKey, Difference], *, family: int | None
) -> dict[PairKey, Difference]:
    """The same with Holm's correction; those without a p-value stay as they are."""
    tested = {key: d.p_value for key, d in differences.items() if d.p_value is not None}
    adjusted = dict(zip(tested, holm([*tested.values()], family=family), strict=True))
    return {
        key: replace(difference, adjusted_p=adjusted.get(key))
        for key, difference in differences.items()
    }
