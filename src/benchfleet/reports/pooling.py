"""Pooling the repeats of one model × config × benchmark into the values that statistics take.

Repeats ask different samples, so that all their samples count as one sample of the benchmark.
Where a benchmark's headline is not the mean of its samples' scores, or it has none, each
repeat's headline is one value instead; that is decided for all configs of a model × benchmark
alike, because they are compared value by value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from benchfleet.benchmarks.bootstrap import STDERR
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.averages import are_equal, mean, standard_error
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.state import State
from benchfleet.results.read import SampleScores
from benchfleet.results.summary import is_mean

from .serving_points import BENCHMARK, point_speed

Scores = Callable[[CellRecord], SampleScores]
_AXES_CHOOSE = frozenset({"generation", "batch_size"})  # of a workload, what models and configs may
Key = str | int  # a sample's id, or a repeat for its headline
_Name = TypeVar("_Name", bound=Hashable)


@dataclass(kw_only=True)
class Pool:
    """The repeats of one model × config × benchmark."""

    states: Counter[State] = field(default_factory=Counter)
    outcomes: list[Outcome] = field(default_factory=list)  # of the repeats that have a score
    values: Mapping[Key, float] = field(default_factory=dict)
    contexts: dict[Key, str] = field(default_factory=dict)  # that samples may share
    scored: list[tuple[int, float, SampleScores]] = field(default_factory=list)
    loads_server: bool = False  # its score is a speed, and not one of answers
    slowed: bool = False  # its config computes dense attention beside the sparse one
    by_sample: bool = True  # its values are samples, and not headlines
    apart: bool = False  # its samples are not here, and those of other configs are

    def add(self, cell: Cell, record: CellRecord | None, scores: Scores) -> None:
        """Count a repeat in, with its score where it has one."""
        self.states[record.state if record else "pending"] += 1
        self.slowed = bool(cell.config.attention) and cell.config.mode != "fast"
        self.loads_server = cell.workload.benchmark == BENCHMARK
        outcome = record.outcome if record and record.state == "success" else None
        if record and outcome and "overall_score" in outcome.metrics:
            headline = float(outcome.metrics["overall_score"])
            self.outcomes.append(outcome)
            self.scored.append((cell.repeat, headline, scores(record)))

    @property
    def is_ranked(self) -> bool:
        """Whether a higher headline is a better one, by what the benchmark says."""
        return all(outcome.reported.get("ranked", True) for outcome in self.outcomes)

    def is_mean_of_samples(self) -> bool:
        """Whether the headline is the mean of its samples' scores in every repeat whose samples
        are here."""
        return all(
            is_mean(headline, read.scores.values())
            for (_, headline, read), absent in zip(self.scored, self._absent(), strict=True)
            if not absent
        )

    def _absent(self) -> list[bool]:
        """Of each repeat, whether it has a score of samples, and none of them is here."""
        return [
            not (self.loads_server or read.scores or read.local or one.metrics.get("samples") == 0)
            for one, (_, _, read) in zip(self.outcomes, self.scored, strict=True)
        ]

    @property
    def lacks_samples(self) -> bool:
        """Whether a repeat has a score of samples, and none of them is here."""
        return any(self._absent())

    @property
    def has_samples(self) -> bool:
        """Whether samples of a repeat have scores here."""
        return any(read.scores for _, _, read in self.scored)

    @cached_property
    def mean(self) -> float:
        """The values' mean, once they are settled. Raises ValueError if there are none."""
        return mean([*self.values.values()])

    def mean_over(self, keys: Collection[Key]) -> float:
        """The mean over some of its values."""
        if len(keys) == len(self.values):
            return self.mean
        return mean([self.values[key] for key in keys])

    @cached_property
    def stderr(self) -> float | None:
        """The standard error of the values' mean, clustered where samples share a context. Of a
        single headline it is that of the bootstrap, where its benchmark made one. Equal headlines
        say nothing of their samples, so theirs is unknown, and so is that of a result which is
        `apart`."""
        if self.apart:
            return None
        if len(self.values) == 1 and len(self.outcomes) == 1:
            error = self.outcomes[0].reported.get(STDERR)
            return None if error is None else float(error)
        contexts: list[Hashable] | None = None
        if self.contexts:
            contexts = [self.contexts.get(key, key) for key in self.values]
        if not self.by_sample and are_equal([*self.values.values()]):
            return None
        return standard_error([*self.values.values()], contexts)

    @property
    def has_none(self) -> bool:
        """Whether its benchmark scored no samples, as a script may."""
        return not (self.loads_server or self.has_samples or self.lacks_samples)

    @property
    def is_slowed(self) -> bool:
        """Whether a sparse config's density was measured, which computes dense attention too."""
        return self.slowed and any("density" in outcome.metrics for outcome in self.outcomes)

    def total(self, metric: str) -> float:
        """The sum of a metric over the repeats that have it."""
        return math.fsum(float(outcome.metrics.get(metric, 0)) for outcome in self.outcomes)

    def tokens(self) -> float:
        """Generated tokens."""
        return self.total("completion_tokens")

    def tokens_per_second(self) -> float | None:
        """Of answer time; of a load point, whose requests overlap, of its steady window. None if
        it is unknown, no token was generated, or measuring the density slowed it down."""
        if self.loads_server:
            speeds = [speed for one in self.outcomes if (speed := point_speed(one)) is not None]
            return mean(speeds) if speeds else None
        seconds, tokens = self.total("seconds"), self.tokens()
        return None if self.is_slowed or seconds <= 0 or not tokens else tokens / seconds

    def density(self) -> float | None:
        """Of the attention, averaged over the samples; None if none was measured."""
        measured = [
            (float(outcome.metrics["density"]), float(outcome.metrics.get("samples") or 1))
            for outcome in self.outcomes
            if "density" in outcome.metrics
        ]
        samples = math.fsum(count for _, count in measured)
        return math.fsum(value * count for value, count in measured) / samples if samples else None

    def settle(self, *, by_sample: bool) -> None:
        """Take the samples, or the headlines, as the values. Of samples these are the repeats'
        whose samples are here; where none are, the headlines stand for themselves alone.

        A sample that several repeats asked again, under one id, is one value, their mean: asking
        the same thing ten times does not make ten independent answers.
        """
        self.apart = by_sample and bool(self.scored) and not self.has_samples
        self.by_sample = by_sample and not self.apart
        if not self.by_sample:
            self.values = {repeat: headline for repeat, headline, _ in self.scored}
            return
        values: dict[Key, float] = {}
        repeated: dict[Key, list[float]] = {}
        for _, _, read in self.scored:
            for name, value in read.scores.items():
                if name in values:
                    repeated.setdefault(name, [values[name]]).append(value)
                else:
                    values[name] = value
            self.contexts.update(read.contexts)
        values.update((name, mean(some)) for name, some in repeated.items())
        self.values = values


@dataclass(frozen=True, kw_only=True)
class Row:
    """The configs of one model × benchmark, in the campaign's order."""

    model: str
    benchmark: str
    pools: dict[str, Pool]
    by_sample: bool = True

    @property
    def lacks_samples(self) -> bool:
        """Whether scores stand for samples that are not here."""
        return any(pool.lacks_samples for pool in self.pools.values())

    @property
    def has_none(self) -> bool:
        """Whether its benchmark scored no samples."""
        scored = [pool for pool in self.pools.values() if pool.scored]
        return bool(scored) and all(pool.has_none for pool in scored)

    @property
    def is_ranked(self) -> bool:
        """Whether a higher headline is a better one, by what the benchmark says."""
        return all(pool.is_ranked for pool in self.pools.values())

    def measured(self) -> dict[str, Pool]:
        """The configs that have values."""
        return {config: pool for config, pool in self.pools.items() if pool.values}


def shared_keys(pools: Iterable[Pool]) -> Collection[Key]:
    """The keys of the values that all of these have."""
    first, *others = (pool.values.keys() for pool in pools)
    if all(keys == first for keys in others):
        return first
    return set(first).intersection(*others)


def ranks(pools: Mapping[_Name, Pool]) -> dict[_Name, float]:
    """What ranks each pool among these: its mean over the values of the pool that has most. A pool
    that lacks some of them ranks as that pool's mean plus the difference over the shared values. So
    a config that has run a few samples does not reduce the others to these. Where none are shared,
    it is its own mean."""
    fullest = max(pools.values(), key=lambda pool: len(pool.values))
    return {name: _rank(pool, fullest) for name, pool in pools.items()}


def _rank(pool: Pool, fullest: Pool) -> float:
    shared = shared_keys((pool, fullest))
    if not shared:
        return pool.mean
    if len(shared) == len(fullest.values):
        return pool.mean_over(shared)
    return fullest.mean + (pool.mean_over(shared) - fullest.mean_over(shared))


def pooled(
    pairs: Sequence[tuple[Cell, CellRecord | None]],
    columns: Mapping[Fingerprint, str],
    scores: Scores,
) -> list[Row]:
    """A row for each model × benchmark, in the campaign's order."""
    pools_of: dict[tuple[str, str], dict[str, Pool]] = {}
    for cell, record in pairs:
        pools = pools_of.setdefault((cell.model.name, columns[cell.fingerprint]), {})
        if (pool := pools.get(cell.config.name)) is None:
            pool = pools[cell.config.name] = Pool()
        pool.add(cell, record, scores)
    rows = []
    for (model, benchmark), pools in pools_of.items():
        scored = [pool for pool in pools.values() if pool.scored]
        by_sample = all(pool.is_mean_of_samples() for pool in scored) and (
            not scored or any(pool.has_samples for pool in scored)
        )
        for pool in pools.values():
            pool.settle(by_sample=by_sample)
        rows.append(Row(model=model, benchmark=benchmark, pools=pools, by_sample=by_sample))
    return rows


def column_names(cells: Sequence[Cell]) -> dict[Fingerprint, str]:
    """Each cell's benchmark with subset, limit and hardware; a name that is taken gets a mark.

    A model or config may bring generation settings and a batch size of its own, and is compared
    with the others all the same. Only if one of them has the benchmark twice, these tell columns
    apart.
    """
    digests: dict[tuple[int, int, bool], str] = {}  # by the objects that many cells share

    def digest_of(cell: Cell, whole: bool) -> str:
        workload, measured_on = cell.workload, cell.measured_on
        objects = id(workload), id(measured_on), whole
        if objects not in digests:
            identity = workload.identity()
            if not whole:
                identity = {key: identity[key] for key in identity if key not in _AXES_CHOOSE}
            hardware = {"hardware": measured_on.identity()} if measured_on else {}
            digests[objects] = content_digest({**identity, **hardware})
        return digests[objects]

    cells_seen: dict[tuple[str, str, str, int], str] = {}
    declared_twice: set[str] = set()
    for cell in cells:
        digest = digest_of(cell, whole=False)
        key = digest, cell.model.name, cell.config.name, cell.repeat
        if cells_seen.setdefault(key, cell.fingerprint) != cell.fingerprint:
            declared_twice.add(digest)
    names: dict[str, str] = {}  # by digest
    columns = {}
    for cell in cells:
        digest = digest_of(cell, whole=False)
        if digest in declared_twice:
            digest = digest_of(cell, whole=True)
        if digest not in names:
            name = cell.label
            names[digest] = f"{name}@{digest[:8]}" if name in names.values() else name
        columns[cell.fingerprint] = names[digest]
    return columns
