"""The score of each suite: one number over several benchmarks, with its propagated error.

A suite has a score only where all its parts have one, so two scores of a suite are always over the
same benchmarks. The error assumes that different benchmarks ask independent samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

from benchfleet.domain.suite import Suite

from .pooling import Pool, Row, ranks
from .ranking import Differ, corrected
from .statistics import Difference, weighted_difference
from .winners import Contender, Standing, Winner, names_of, winner


@dataclass(frozen=True, kw_only=True)
class SuiteScore:
    """One model × config on one suite."""

    suite: str
    model: str
    config: str
    mean: float | None  # None where a part is missing
    stderr: float | None  # None if that of a part is unknown
    samples: int
    parts: int
    parts_done: int
    remark: str = ""  # why there is no score
    difference: Difference | None = None  # to the baseline of the same model

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        difference = self.difference.to_dict() if self.difference else None
        return {**vars(self), "difference": difference}


@dataclass
class SuitePools:
    """The results of one model × config on the workloads of one suite."""

    suite: Suite
    pools: dict[str, Pool] = field(default_factory=dict)  # by the workload's full name
    columns: dict[str, str] = field(default_factory=dict)  # the report's name of each workload
    several: set[str] = field(default_factory=set)  # workloads that are there in several versions
    large: frozenset[str] = frozenset()  # workloads on which some contender's mean is above 1

    def add(self, full_name: str, column: str, pool: Pool) -> None:
        """Take a result in if the suite asks for it."""
        if full_name not in self.suite.workloads:
            return
        if self.columns.setdefault(full_name, column) != column:
            self.several.add(full_name)
        if pool.values:
            self.pools[full_name] = pool

    @property
    def parts_done(self) -> int:
        """Parts that have a result of each of their workloads."""
        present = self.pools.keys() - self.several
        return sum(present >= set(part.workloads) for part in self.suite.parts)

    @property
    def remark(self) -> str:
        """Why there is no score; empty where there is one."""
        if self.several:
            names = ", ".join(sorted(self.several))
            return f"several versions of {names}"
        if self.parts_done < len(self.suite.parts):
            return f"{self.parts_done} of {len(self.suite.parts)} parts"
        if self.suite.mean != "weights" and 0 < len(self.large) < len(self.pools):
            some, others = min(self.large), min(self.pools.keys() - self.large)
            return f"{some} and {others} have different scales; give weights"
        return ""

    def samples(self) -> dict[str, int]:
        """How many values each workload has."""
        return {name: len(pool.values) for name, pool in self.pools.items()}

    def mean(self) -> float:
        """The score."""
        weights = self.suite.weights(self.samples())
        return math.fsum(weights[name] * pool.mean for name, pool in self.pools.items())

    def stderr(self) -> float | None:
        """Its propagated standard error, √(Σ w² s²); None where one of a part is unknown."""
        weights = self.suite.weights(self.samples())
        errors = [(weights[name], pool.stderr) for name, pool in self.pools.items()]
        known_errors = [weight * error for weight, error in errors if error is not None]
        return math.hypot(*known_errors) if len(known_errors) == len(errors) else None


def suite_difference(suite: Suite, differences: Mapping[str, Difference]) -> Difference:
    """The difference of a suite's score, from those of its workloads by full name. Of ``micro`` the
    weights count the shared samples."""
    weights = suite.weights({name: difference.n for name, difference in differences.items()})
    return weighted_difference([(weights[name], differences[name]) for name in suite.workloads])


def suite_scores(
    suites: Sequence[Suite],
    rows: Sequence[Row],
    full_names: Mapping[str, str],
    baseline: str,
    differ: Differ,
) -> tuple[tuple[SuiteScore, ...], tuple[Winner, ...]]:
    """The scores of each suite, and what leads it. `full_names` gives the workload of each column.

    `differ` gives the difference of two contenders on a column. p-values have Holm's correction
    over all pairs of all suites.
    """
    tables = [_table(suite, rows, full_names) for suite in suites]
    complete = [{who: one for who, one in table.items() if not one.remark} for table in tables]
    family = sum(math.comb(len(some), 2) for some in complete)
    standings = [_standings(some) for some in complete]
    leaders = [_leader(some, baseline) for some in standings]
    needed = [
        (number, first, second)
        for number, some in enumerate(complete)
        for first, second in combinations(some, 2)
        if leaders[number] in (first, second)
        or (first[0] == second[0] and baseline in (first[1], second[1]))
    ]
    raw = [_difference(complete[number], a, b, differ) for number, a, b in needed]
    differences = dict(zip(needed, corrected(raw, family=family), strict=True))

    def between(number: int, first: Contender, second: Contender) -> Difference:
        if (number, first, second) in differences:
            return differences[number, first, second]
        return differences[number, second, first].reversed()

    scores, best = [], []
    for number, (table, some) in enumerate(zip(tables, complete, strict=True)):
        for who, one in table.items():
            base = (who[0], baseline)
            is_compared = who in some and base in some and who != base
            scores.append(_score(who, one, between(number, who, base) if is_compared else None))
        if some:
            best.append(
                winner(
                    suites[number].name,
                    standings[number],
                    [*table],
                    baseline,
                    partial(between, number),
                    names_of(table),
                    (
                        score
                        for one in table.values()
                        for pool in one.pools.values()
                        for score in pool.values.values()
                    ),
                )
            )
    return tuple(scores), tuple(best)


def share_scales(tables: Sequence[SuitePools]) -> None:
    """Tell contenders on one suite which of its workloads have scores above 1."""
    large = frozenset(
        name for one in tables for name, pool in one.pools.items() if abs(pool.mean) > 1
    )
    for one in tables:
        one.large = large


def _table(
    suite: Suite, rows: Sequence[Row], full_names: Mapping[str, str]
) -> dict[Contender, SuitePools]:
    table: dict[Contender, SuitePools] = {}
    for row in rows:
        for config, pool in row.pools.items():
            one = table.setdefault((row.model, config), SuitePools(suite))
            one.add(full_names[row.benchmark], row.benchmark, pool)
    table = {who: one for who, one in table.items() if one.columns}
    share_scales([*table.values()])
    return table


def _standings(some: Mapping[Contender, SuitePools]) -> dict[Contender, Standing]:
    """Each score, and what ranks it: the mean of what ranks its parts."""
    if not some:
        return {}
    suite, *_ = (one.suite for one in some.values())
    names = next(iter(some.values())).pools
    parts = {name: ranks({who: one.pools[name] for who, one in some.items()}) for name in names}
    most = {name: max(len(one.pools[name].values) for one in some.values()) for name in names}
    weights = suite.weights(most)
    return {
        who: Standing(
            mean=one.mean(),
            stderr=one.stderr(),
            rank=math.fsum(weights[name] * part[who] for name, part in parts.items()),
        )
        for who, one in some.items()
    }


def _leader(standings: Mapping[Contender, Standing], baseline: str) -> Contender | None:
    return max(standings, key=lambda one: (standings[one].rank, one[1] == baseline), default=None)


def _difference(
    some: Mapping[Contender, SuitePools], first: Contender, second: Contender, differ: Differ
) -> Difference:
    columns = some[first].columns
    if columns != some[second].columns:
        return Difference(n=0, difference=None)
    return suite_difference(
        some[first].suite,
        {name: differ(column, first, second) for name, column in columns.items()},
    )


def _score(who: Contender, one: SuitePools, difference: Difference | None) -> SuiteScore:
    return SuiteScore(
        suite=one.suite.name,
        model=who[0],
        config=who[1],
        mean=None if one.remark else one.mean(),
        stderr=None if one.remark else one.stderr(),
        samples=sum(one.samples().values()),
        parts=len(one.suite.parts),
        parts_done=one.parts_done,
        remark=one.remark,
        difference=difference,
    )
