"""Which model × config leads each benchmark, and which differences are significant.

There are two families of comparisons, each with Holm's correction over the whole report. The
comparisons of a model's configs with its baseline are planned in advance. All other pairs that
share a benchmark are the second family: the leader is known only afterwards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations

from .pooling import Pool, Row, ranks
from .statistics import Difference, holm, paired_difference
from .winners import Contender, Standing, Winner, names_of, winner

Differ = Callable[[str, Contender, Contender], Difference]  # benchmark; the first less the second
PlannedKey = tuple[str, str, str]  # model, benchmark, config

_MAX_COMPARED_VALUES = 4_000_000  # by all pairs together; of more, only the leaders' are compared


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two contenders on one benchmark: the first less the second."""

    benchmark: str
    first: Contender
    second: Contender
    difference: Difference


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """What leads where."""

    best: tuple[Winner, ...]  # one for each benchmark, over all models and configs
    by_model: tuple[Winner, ...]  # one for each model × benchmark, over its configs
    pairs: tuple[Pair, ...]  # all, or of a large report those of the leaders
    differ: Differ  # also of pairs that are not among `pairs`


def against_baseline(rows: Sequence[Row], baseline: str) -> dict[PlannedKey, Difference]:
    """Every config with values less its model's baseline, where the baseline has values too."""
    differences = {}
    for row in rows:
        pools = row.measured()
        for config, pool in pools.items():
            if config != baseline and baseline in pools:
                key = (row.model, row.benchmark, config)
                differences[key] = pool_difference(pool, pools[baseline])
    return dict(zip(differences, corrected([*differences.values()]), strict=True))


def ranking(
    rows: Sequence[Row], baseline: str, planned: Mapping[PlannedKey, Difference]
) -> Ranking:
    """What leads where; `planned` holds the differences to the baseline."""
    fields = [field for field in _fields(rows) if field.pools]
    scopes = [field.of(model) for field in fields for model in field.models if field.of(model)]
    pairs = _Pairs(fields, [*fields, *scopes], baseline, planned)
    everyone = {contender for field in fields for contender in field.everyone}
    return Ranking(
        best=tuple(_winner(field, baseline, pairs, names_of(everyone)) for field in fields),
        by_model=tuple(
            _winner(scope, baseline, pairs, names_of(scope.everyone))
            for model in dict.fromkeys(row.model for row in rows)
            for scope in scopes
            if scope.models == [model]
        ),
        pairs=tuple(pairs.all()),
        differ=pairs,
    )


@dataclass(frozen=True)
class _Field:
    """The contenders of one benchmark."""

    benchmark: str
    pools: Mapping[Contender, Pool]  # those with a result
    everyone: Sequence[Contender]

    def __bool__(self) -> bool:
        return bool(self.pools)

    @property
    def models(self) -> list[str]:
        return [*dict.fromkeys(model for model, _ in self.everyone)]

    def of(self, model: str) -> _Field:
        """The configs of one model alone."""
        pools = {one: pool for one, pool in self.pools.items() if one[0] == model}
        return _Field(self.benchmark, pools, [one for one in self.everyone if one[0] == model])

    @cached_property
    def means(self) -> Mapping[Contender, float]:
        """What ranks each contender."""
        return ranks(self.pools)

    def leader(self, baseline: str) -> Contender:
        """The highest mean; of equals the baseline, then the first."""
        means = self.means
        return max(means, key=lambda one: (means[one], one[1] == baseline))


def _fields(rows: Iterable[Row]) -> list[_Field]:
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(row.benchmark, []).append(row)
    return [
        _Field(
            benchmark,
            {(r.model, config): pool for r in some for config, pool in r.measured().items()},
            [(row.model, config) for row in some for config in row.pools],
        )
        for benchmark, some in members.items()
    ]


class _Pairs:
    """The difference of any two contenders that the ranking needs, corrected by family."""

    def __init__(
        self,
        fields: Sequence[_Field],
        scopes: Sequence[_Field],
        baseline: str,
        planned: Mapping[PlannedKey, Difference],
    ) -> None:
        self._baseline, self._planned = baseline, planned
        self._pools = {field.benchmark: field.pools for field in fields}
        sizes = [(field, self._count(field)) for field in fields]
        values = sum(count * max(len(p.values) for p in f.pools.values()) for f, count in sizes)
        if values <= _MAX_COMPARED_VALUES:
            chosen = [(field, pair) for field in fields for pair in combinations(field.pools, 2)]
        else:
            chosen = [(scope, pair) for scope in scopes for pair in self._of_leader(scope)]
            chosen = [*{(f.benchmark, *sorted(pair)): (f, pair) for f, pair in chosen}.values()]
        chosen = [(field, pair) for field, pair in chosen if not self._is_planned(*pair)]
        differences = [pool_difference(field.pools[a], field.pools[b]) for field, (a, b) in chosen]
        adjusted = corrected(differences, family=sum(count for _, count in sizes))
        keys = [(field.benchmark, *pair) for field, pair in chosen]
        self._others = dict(zip(keys, adjusted, strict=True))

    def __call__(self, benchmark: str, first: Contender, second: Contender) -> Difference:
        """The first less the second."""
        if self._is_planned(first, second):
            if second[1] == self._baseline:
                return self._planned[first[0], benchmark, first[1]]
            return self._planned[second[0], benchmark, second[1]].reversed()
        if (key := (benchmark, first, second)) in self._others:
            return self._others[key]
        if (key := (benchmark, second, first)) in self._others:
            return self._others[key].reversed()
        pools = self._pools[benchmark]
        return pool_difference(pools[first], pools[second])

    def all(self) -> Iterator[Pair]:
        """Those to the baseline, then the others."""
        for (model, benchmark, config), difference in self._planned.items():
            first, second = (model, config), (model, self._baseline)
            yield Pair(benchmark=benchmark, first=first, second=second, difference=difference)
        for (benchmark, first, second), difference in self._others.items():
            yield Pair(benchmark=benchmark, first=first, second=second, difference=difference)

    def _count(self, field: _Field) -> int:
        """How many pairs of a benchmark are not planned."""
        models = Counter(model for model, _ in field.pools)
        planned = (n - 1 for m, n in models.items() if (m, self._baseline) in field.pools)
        return math.comb(len(field.pools), 2) - sum(planned)

    def _of_leader(self, scope: _Field) -> Iterator[tuple[Contender, Contender]]:
        """The leader with each of the others."""
        leader = scope.leader(self._baseline)
        yield from ((leader, other) for other in scope.pools if other != leader)

    def _is_planned(self, first: Contender, second: Contender) -> bool:
        return first[0] == second[0] and self._baseline in (first[1], second[1])


def _winner(field: _Field, baseline: str, pairs: _Pairs, names: Mapping[Contender, str]) -> Winner:
    means = field.means
    standings = {
        one: Standing(mean=pool.mean, stderr=pool.stderr, rank=means[one])
        for one, pool in field.pools.items()
    }
    benchmark = field.benchmark
    return winner(
        benchmark,
        standings,
        field.everyone,
        baseline,
        lambda first, second: pairs(benchmark, first, second),
        names,
        chain.from_iterable(pool.values.values() for pool in field.pools.values()),
    )


def pool_difference(ours: Pool, theirs: Pool) -> Difference:
    """Ours less theirs, paired by sample or by repeat. Headlines that all differ by the same say
    nothing of their samples, so that the error is unknown. A result that is `apart` is compared
    with none."""
    if ours.apart or theirs.apart:
        return Difference(n=0, difference=None)
    contexts = {**theirs.contexts, **ours.contexts}
    difference = paired_difference(ours.values, theirs.values, contexts)
    if difference.stderr == 0 and not (ours.by_sample and theirs.by_sample):
        return Difference(n=difference.n, difference=difference.difference)
    return difference


def corrected(differences: Sequence[Difference], *, family: int | None = None) -> list[Difference]:
    """The same with Holm's correction; those without a p-value stay as they are."""
    tested = [i for i, difference in enumerate(differences) if difference.p_value is not None]
    p_values = [p for difference in differences if (p := difference.p_value) is not None]
    adjusted, size = [*differences], len(p_values) if family is None else family
    for index, p_value in zip(tested, holm(p_values, family=size), strict=True):
        adjusted[index] = replace(adjusted[index], adjusted_p=p_value, family=size)
    return adjusted
