"""Two sets of results side by side: what changed from the first to the second, and how surely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.averages import mean
from benchfleet.domain.cell import Cell
from benchfleet.domain.suite import Suite

from .pooling import Pool, Scores, column_names, pooled
from .proportions import paired_interval
from .ranking import corrected, pool_difference
from .statistics import Difference
from .suites import SuitePools, share_scales, suite_difference

DEFAULT_MIN_EFFECT = 0.01  # smaller drops are no regressions
Subject = tuple[str, str, str]  # model, config, benchmark; "" where it tells the sides apart


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two: cells with their records, and the axes that the selection fixes."""

    name: str
    cells: Sequence[Cell]
    records: Sequence[CellRecord]
    scores: Scores
    fixed: frozenset[str] = frozenset()  # axes with one name, such as "configs"
    suites: Sequence[Suite] = ()
    notes: Sequence[str] = ()  # what a reader must know of its numbers


@dataclass(frozen=True, kw_only=True)
class Change:
    """One model × config × benchmark on both sides; the difference is the second less the first.

    Of a suite, `benchmark` is its name.
    """

    model: str  # "" where the sides are two models, as the next two
    config: str
    benchmark: str
    before: float | None  # mean; None without a result
    before_stderr: float | None
    after: float | None
    after_stderr: float | None
    difference: Difference
    gained: tuple[str, ...] = ()  # samples from wrong to right, of scores of 0 and 1
    lost: tuple[str, ...] = ()  # samples from right to wrong
    remark: str = ""  # why there is no difference
    regression: bool = field(default=False)
    is_suite: bool = False
    samples: tuple[int, int] = (0, 0)  # values of each side, shared or not; of suites not counted
    lacks_samples: bool = False  # so nothing is tested
    unseen: float = 0.0  # how far samples that were not drawn may move it, where all drawn agree

    @property
    def name(self) -> str:
        """``model × config / benchmark``, without what tells the sides apart."""
        subject = " × ".join(filter(None, (self.model, self.config)))
        return f"{subject} / {self.label}" if subject else self.label

    @property
    def label(self) -> str:
        """The benchmark, or ``suite core``."""
        return f"suite {self.benchmark}" if self.is_suite else self.benchmark

    @property
    def shares_a_part(self) -> bool:
        """Whether samples of one side are missing in the other, and so are not compared."""
        return 0 < self.difference.n < max(self.samples)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {name: list(values[name]) for name in ("gained", "lost", "samples")}
        unseen = self.unseen if math.isfinite(self.unseen) else None
        return {**values, **lists, "unseen": unseen, "difference": self.difference.to_dict()}


def changes(
    before: Side, after: Side, *, min_effect: float = DEFAULT_MIN_EFFECT
) -> tuple[Change, ...]:
    """What both sides have in common, in the order of the first, then what only one of them has,
    then the suites.

    p-values have Holm's correction over all benchmarks, and over all suites. A change is a
    regression if it is significantly lower, its interval excludes zero, and it is at least
    `min_effect` lower.
    """
    dropped = before.fixed & after.fixed
    first, second = _subjects(before, dropped), _subjects(after, dropped)
    names = (before.name, after.name)
    compared = [
        _change(subject, first.get(subject), second.get(subject), names)
        for subject in dict.fromkeys((*first, *second))
    ]
    suites = [
        _suite_change(key, tables, names)
        for key, tables in _suite_tables((before, after), (first, second)).items()
    ]
    return tuple(
        replace(change, difference=difference, regression=_is_regression(difference, min_effect))
        for family in (compared, suites)
        for change, difference in zip(
            family, corrected([change.difference for change in family]), strict=True
        )
    )


def _is_regression(difference: Difference, min_effect: float) -> bool:
    drop, interval = difference.difference, difference.interval
    excludes_zero = interval is None or interval[1] < 0
    return (
        difference.significantly_lower and drop is not None and -drop >= min_effect
    ) and excludes_zero


@dataclass
class _Entry:
    pool: Pool
    versions: set[str]  # of the benchmark; scores of two versions are not compared
    full_name: str  # of its workload


def _subjects(side: Side, dropped: frozenset[str]) -> dict[Subject, _Entry]:
    """The pools of one side by subject; several of one subject are those of a wider selection."""
    record_of = {record.fingerprint: record for record in side.records}
    columns = column_names(side.cells)
    pairs = [(cell, record_of.get(cell.fingerprint)) for cell in side.cells]
    versions: dict[str, set[str]] = {}
    full_names = {columns[cell.fingerprint]: cell.workload.full_name for cell in side.cells}
    for cell in side.cells:
        versions.setdefault(columns[cell.fingerprint], set()).add(cell.workload.version)
    subjects: dict[Subject, _Entry] = {}
    for row in pooled(pairs, columns, side.scores):
        for config, pool in row.pools.items():
            subject = (
                "" if "models" in dropped else row.model,
                "" if "configs" in dropped else config,
                row.benchmark,
            )
            entry = _Entry(pool, versions[row.benchmark], full_names[row.benchmark])
            subjects[subject] = entry
    return subjects


def _change(
    subject: Subject, before: _Entry | None, after: _Entry | None, names: tuple[str, str]
) -> Change:
    model, config, benchmark = subject
    first, second = (entry.pool if entry else None for entry in (before, after))
    values = [pool.values if pool else {} for pool in (first, second)]
    remark = _remark(before, after, values, names)
    difference = Difference(n=0, difference=None)
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    lacks_samples = False
    if not remark and first and second:
        difference = pool_difference(second, first)
        lacks_samples = difference.p_value is None and any(
            pool.lacks_samples and not pool.has_none for pool in (first, second)
        )
        if not difference.n:
            remark = "samples are missing" if lacks_samples else "no samples are shared"
        both = [key for key in values[0] if key in values[1] and isinstance(key, str)]
        gained = tuple(key for key in both if (values[0][key], values[1][key]) == (0, 1))
        lost = tuple(key for key in both if (values[0][key], values[1][key]) == (1, 0))
    return Change(
        model=model,
        config=config,
        benchmark=benchmark,
        before=_mean(values[0]),
        before_stderr=first.stderr if first and first.values else None,
        after=_mean(values[1]),
        after_stderr=second.stderr if second and second.values else None,
        difference=difference,
        gained=gained,
        lost=lost,
        remark=remark,
        samples=(len(values[0]), len(values[1])),
        lacks_samples=lacks_samples,
        unseen=_unseen(difference, [pool for pool in (first, second) if pool]),
    )


_SuiteKey = tuple[str, str, str]  # model, config, suite
_SuiteSide = tuple[SuitePools, dict[str, set[str]]]  # with the versions of each workload


def _suite_tables(
    sides: Sequence[Side], subjects: Sequence[Mapping[Subject, _Entry]]
) -> dict[_SuiteKey, list[_SuiteSide | None]]:
    """The results of each suite on both sides; None where a side does not have it."""
    tables: dict[_SuiteKey, list[_SuiteSide | None]] = {}
    for number, (side, entries) in enumerate(zip(sides, subjects, strict=True)):
        for suite in side.suites:
            for (model, config, benchmark), entry in entries.items():
                if entry.full_name in suite.workloads:
                    both = tables.setdefault((model, config, suite.name), [None, None])
                    pools, versions = both[number] or (SuitePools(suite), {})
                    pools.add(entry.full_name, benchmark, entry.pool)
                    versions.setdefault(entry.full_name, set()).update(entry.versions)
                    both[number] = (pools, versions)
    for name in {key[2] for key in tables}:
        whole = [one for key, some in tables.items() if key[2] == name for one in some if one]
        share_scales([pools for pools, _ in whole])
    return tables


def _suite_change(
    key: _SuiteKey, sides: Sequence[_SuiteSide | None], names: tuple[str, str]
) -> Change:
    tables = [side[0] if side else None for side in sides]
    means = [None if table is None or table.remark else table.mean() for table in tables]
    errors = [None if table is None or table.remark else table.stderr() for table in tables]
    remark, difference, unseen = _suite_remark(sides, names), Difference(n=0, difference=None), 0.0
    first, second = tables
    if not remark and first and second:
        parts = {
            name: pool_difference(second.pools[name], pool) for name, pool in first.pools.items()
        }
        difference = suite_difference(first.suite, parts)
        remark = "" if difference.n else "no samples are shared"
        weights = first.suite.weights({name: max(1, part.n) for name, part in parts.items()})
        unseen = sum(
            weights[name] * _unseen(part, [table.pools[name] for table in (first, second)])
            for name, part in parts.items()
        )
    return Change(
        model=key[0],
        config=key[1],
        benchmark=key[2],
        before=means[0],
        before_stderr=errors[0],
        after=means[1],
        after_stderr=errors[1],
        difference=difference,
        remark=remark,
        is_suite=True,
        unseen=unseen,
    )


def _suite_remark(sides: Sequence[_SuiteSide | None], names: tuple[str, str]) -> str:
    """Why a suite is not compared; empty where it is."""
    for side, name in zip(sides, names, strict=True):
        if side is None:
            return f"not in {name}"
        if side[0].remark:
            return f"{side[0].remark} in {name}"
    first, second = (side for side in sides if side)
    if first[0].suite != second[0].suite or first[0].columns != second[0].columns:
        return "its parts differ and cannot be compared"
    if first[1] != second[1]:
        changed = ", ".join(name for name in first[1] if first[1][name] != second[1][name])
        return f"versions of {changed} differ and cannot be compared"
    return ""


def _unseen(difference: Difference, pools: Sequence[Pool]) -> float:
    """Where all n samples differ by the same amount, a share of up to z²/(n + z²) of others may
    still differ (Tango's interval without flips), each by at most 1. Scores beyond 0 to 1 have no
    such limit. 0 where an interval covers them."""
    if difference.interval or difference.stderr != 0 or not difference.n:
        return 0.0
    if any(not 0 <= value <= 1 for pool in pools for value in pool.values.values()):
        return math.inf
    return paired_interval(0, 0, round(difference.freedom) + 1)[1]


def _remark(
    before: _Entry | None,
    after: _Entry | None,
    values: Sequence[Mapping[Any, float]],
    names: tuple[str, str],
) -> str:
    for entry, scores, name in zip((before, after), values, names, strict=True):
        if entry is None:
            return f"not in {name}"
        if not scores:
            return f"no result in {name}"
        if not entry.pool.is_ranked:
            return f"not ranked in {name}: its client was the bottleneck, or its rate decides it"
    if before and after and before.versions != after.versions:
        first, second = (", ".join(sorted(one.versions)) for one in (before, after))
        return f"versions {first} and {second} of the benchmark cannot be compared"
    return ""


def _mean(values: Mapping[Any, float]) -> float | None:
    return mean([*values.values()]) if values else None
