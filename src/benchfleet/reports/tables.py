"""The comparison that every report shows: scores, differences, winners and what it all took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.state import State
from benchfleet.domain.usage import UsageTotal
from benchfleet.errors import UnknownName
from benchfleet.hints import hint
from benchfleet.ledger.history import counts

from .failures import FailureGroup, grouped_failures
from .pooling import Pool, Row, Scores, column_names, pooled
from .ranking import Winner, against_baseline, winners
from .spending import Spent, spending, spent_on, total
from .statistics import Difference, mean, standard_error

_MAX_LISTED_NAMES, _EXAMPLES = 5, 3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model × config × benchmark, its repeats pooled."""

    model: str
    config: str
    benchmark: str  # the column: the benchmark with its subset and limit
    states: Mapping[State, int]  # repeats in each state; only those that occur
    mean: float | None  # None where no repeat has a result
    stderr: float | None  # None below two values
    samples: int
    density: float | None  # of the attention, averaged over the samples
    tokens_per_second: float | None  # generated; None if measuring the density slowed it down
    difference: Difference | None  # to the baseline; None for the baseline itself
    spent: Spent  # by all attempts of its cells

    @property
    def repeats_done(self) -> int:
        """Repeats that have a result."""
        return self.states.get("success", 0)

    @property
    def repeats_expected(self) -> int:
        """Repeats that the campaign asks for."""
        return sum(self.states.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            **_plain(self),
            "states": dict(self.states),
            "repeats_done": self.repeats_done,
            "repeats_expected": self.repeats_expected,
            "difference": self.difference.to_dict() if self.difference else None,
            "spent": self.spent.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class TimeSpent:
    """Where the time of one model × config went: the last attempts' of its cells."""

    model: str
    config: str
    seconds: Mapping[str, float]  # by stage: load, benchmark, …


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that a report says, as plain frozen values."""

    baseline: str  # a config; "" where there are no cells
    models: tuple[str, ...]
    configs: tuple[str, ...]
    benchmarks: tuple[str, ...]
    counts: Mapping[str, int]  # total, and every state
    entries: tuple[Entry, ...]  # in the campaign's order
    winners: tuple[Winner, ...]  # one for each model × benchmark that has a result
    failures: tuple[FailureGroup, ...]
    time: tuple[TimeSpent, ...]
    spent: tuple[Spent, ...]  # by model × config: attempts, GPU-hours, energy, money, memory
    notes: tuple[str, ...]  # what a reader should know before trusting the numbers

    @cached_property
    def entry_at(self) -> Mapping[tuple[str, str, str], Entry]:
        """The entries by model, config and benchmark; what the matrix leaves out is absent."""
        return {(entry.model, entry.config, entry.benchmark): entry for entry in self.entries}

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            **_plain(self),
            "counts": dict(self.counts),
            "entries": [entry.to_dict() for entry in self.entries],
            "winners": [_plain(winner) for winner in self.winners],
            "failures": [_plain(group) for group in self.failures],
            "time": [{**_plain(spent), "seconds": dict(spent.seconds)} for spent in self.time],
            "spent": [spent.to_dict() for spent in self.spent],
            "spent_in_all": total(self.spent).to_dict(),
        }


def compare(
    records: Sequence[CellRecord],
    cells: Sequence[Cell],
    scores: Scores,
    baseline: str | None = None,
    bills: Mapping[str, UsageTotal] | None = None,
) -> Comparison:
    """What the campaign's cells say, as the ledger's records have them.

    `scores` reads a successful cell's score by sample id, empty where its benchmark has none.
    The baseline is the config named, else the first without attention steps, else the first.
    `bills` are what the attempts of each cell used up, by fingerprint.
    Records of other cells are passed over; cells without a record are pending. Raises
    `UnknownName` where no config has the baseline's name.
    """
    cells = list(dict.fromkeys(cells))
    record_of = {record.fingerprint: record for record in records}
    pairs = [(cell, record_of.get(cell.fingerprint)) for cell in cells]
    known_records = [record for _, record in pairs if record]
    columns = column_names(cells)
    baseline_name = _baseline(cells, baseline)
    rows = pooled(pairs, columns, scores)
    planned = against_baseline(rows, baseline_name)
    members: dict[tuple[str, str, str], list[tuple[Cell, CellRecord | None]]] = {}
    for cell, record in pairs:
        members.setdefault(
            (cell.model.name, cell.config.name, columns[cell.fingerprint]), []
        ).append((cell, record))
    return Comparison(
        baseline=baseline_name,
        models=tuple(dict.fromkeys(cell.model.name for cell in cells)),
        configs=tuple(dict.fromkeys(cell.config.name for cell in cells)),
        benchmarks=tuple(dict.fromkeys(columns.values())),
        counts=counts(known_records, total=len(cells)),
        entries=tuple(
            _entry(
                row,
                config,
                pool,
                planned.get((row.model, row.benchmark, config)),
                spent_on(row.model, config, members[row.model, config, row.benchmark], bills or {}),
            )
            for row in rows
            for config, pool in row.pools.items()
        ),
        winners=winners(rows, baseline_name, planned),
        failures=grouped_failures(known_records),
        time=_time(pairs),
        spent=spending(pairs, bills or {}),
        notes=tuple(_notes(rows, known_records)),
    )


def _baseline(cells: Sequence[Cell], named: str | None) -> str:
    configs = {cell.config.name: cell.config for cell in cells}
    if named is None:
        dense = [name for name, config in configs.items() if not config.attention]
        return next(iter([*dense, *configs]), "")
    if named not in configs:
        raise UnknownName(f"no config {named!r} to compare with; {hint(named, configs)}")
    return named


def _entry(row: Row, config: str, pool: Pool, difference: Difference | None, spent: Spent) -> Entry:
    values = [*pool.values.values()]
    weights = [float(outcome.metrics.get("samples", 0)) for outcome in pool.outcomes]
    return Entry(
        model=row.model,
        config=config,
        benchmark=row.benchmark,
        states=dict(pool.states),
        mean=mean(values) if values else None,
        stderr=standard_error(values),
        samples=round(math.fsum(weights)),
        density=_density(pool.outcomes, weights),
        tokens_per_second=None if _is_slowed(pool) else _tokens_per_second(pool),
        difference=difference,
        spent=spent,
    )


def _is_slowed(pool: Pool) -> bool:
    """Whether a sparse config's density was measured, which computes dense attention as well."""
    return pool.slowed and any("density" in outcome.metrics for outcome in pool.outcomes)


def _tokens_per_second(pool: Pool) -> float | None:
    return _ratio(_total(pool.outcomes, "completion_tokens"), _total(pool.outcomes, "seconds"))


def _density(outcomes: Sequence[Outcome], weights: Sequence[float]) -> float | None:
    measured = [
        (float(outcome.metrics["density"]), weight)
        for outcome, weight in zip(outcomes, weights, strict=True)
        if "density" in outcome.metrics
    ]
    return _ratio(
        math.fsum(density * weight for density, weight in measured),
        math.fsum(weight for _, weight in measured),
    )


def _total(outcomes: Iterable[Outcome], name: str) -> float:
    return math.fsum(float(outcome.metrics.get(name, 0)) for outcome in outcomes)


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _time(pairs: Iterable[tuple[Cell, CellRecord | None]]) -> tuple[TimeSpent, ...]:
    spent: dict[tuple[str, str], dict[str, float]] = {}
    for cell, record in pairs:
        if record and record.outcome:
            stages = spent.setdefault((cell.model.name, cell.config.name), {})
            for stage, seconds in record.outcome.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
    return tuple(
        TimeSpent(model=model, config=config, seconds=stages)
        for (model, config), stages in spent.items()
        if stages
    )


def _notes(rows: Sequence[Row], records: Iterable[CellRecord]) -> Iterator[str]:
    """What a reader must know to read the numbers correctly."""
    incomplete = [row for row in rows if row.lacks_samples]
    if bare := dict.fromkeys(row.benchmark for row in incomplete if row.has_none):
        yield f"Without samples, each repeat counts as one value: {_examples(bare)}."
    if absent := dict.fromkeys(row.benchmark for row in incomplete if not row.has_none):
        yield f"Some samples are not here, so each repeat counts as one value: {_examples(absent)}."
    whole = (row for row in rows if not row.by_sample and not row.lacks_samples)
    if headlines := dict.fromkeys(row.benchmark for row in whole):
        yield (
            "The score is not the mean of its samples' scores, so each repeat counts as one value: "
            f"{_examples(headlines)}."
        )
    if any(map(_has_uneven_samples, rows)):
        yield (
            "Some configs have fewer samples than others so far: means use all of a config's "
            "samples, differences and ranking only the shared ones."
        )
    if any(
        _is_slowed(pool) and _tokens_per_second(pool) for row in rows for pool in row.pools.values()
    ):
        yield (
            "No speed is shown for sparse configs whose density was measured: measuring it "
            "computes dense attention as well."
        )
    if len(hosts := _hosts(records)) > 1:
        yield (
            f"Results come from {len(hosts)} machines, which can change scores slightly and speed "
            f"a lot: {_examples(hosts)}."
        )


def _has_uneven_samples(row: Row) -> bool:
    """Whether some of its configs have other samples than the rest."""
    return len({frozenset(values) for values in row.measured().values()}) > 1


def _hosts(records: Iterable[CellRecord]) -> list[str]:
    """The hosts of the results, each with its kind of device if known."""
    outcomes = [record.outcome for record in records if record.state == "success"]
    hosts = {(one.host, one.device.partition(":")[0]) for one in outcomes if one and one.host}
    return [f"{host} ({device})" if device else host for host, device in sorted(hosts)]


def _examples(names: Iterable[str]) -> str:
    """The names; of many the first three, and where the others are."""
    names = list(names)
    if len(names) <= _MAX_LISTED_NAMES:
        return ", ".join(names)
    first = ", ".join(names[:_EXAMPLES])
    return f"{first} and {len(names) - _EXAMPLES} more"


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass's own fields, tuples as lists."""
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in fields.items()}
