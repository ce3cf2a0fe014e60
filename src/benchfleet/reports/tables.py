"""The comparison that every report shows: scores, differences, winners and what it all took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.rental import RentalCost
from benchfleet.domain.state import State
from benchfleet.domain.suite import Suite
from benchfleet.domain.usage import UsageTotal
from benchfleet.errors import UnknownName
from benchfleet.hints import hint
from benchfleet.ledger.history import counts

from .endings import Endings, endings_of, first_warnings, truncation_warning
from .failures import FailureGroup, grouped_failures
from .judging import Judged
from .labels import subset_length
from .notes import notes
from .pooling import Pool, Row, Scores, column_names, pooled
from .race_savings import RaceSaving
from .ranking import Pair, against_baseline, ranking
from .serving import ServingPoint, first_load_warnings
from .serving_points import Details, serving_points
from .spending import Spent, by_config, spent_on, total
from .statistics import Difference
from .suites import SuiteScore, suite_scores
from .winners import Winner

_FAILURE_KEYS = ("stage", "kind", "message", "way_out", "cells", "folder", "scoring")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model × config × benchmark, its repeats pooled."""

    model: str
    config: str
    benchmark: str  # the column: the benchmark with its subset and limit
    family: str  # the benchmark without its subset
    length: int | None  # the context length that its subset names
    series: str  # of checkpoints, which the model is one of; "" for none
    step: int | None  # of training, in that series
    states: Mapping[State, int]  # repeats in each state; only those that occur
    mean: float | None  # None where no repeat has a result
    stderr: float | None  # None below two values
    samples: int  # with a score
    density: float | None  # of the attention, averaged over the samples
    tokens_per_second: float | None  # generated; None if measuring the density slowed it down
    difference: Difference | None  # to the baseline; None for the baseline itself
    spent: Spent  # by all attempts of its cells
    endings: Endings = field(default_factory=Endings)  # how its answers ended

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
            "endings": self.endings.to_dict(),
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
    best: tuple[Winner, ...]  # over all models and configs; one for each benchmark with a result
    winners: tuple[Winner, ...]  # over the configs of a model; one for each model × benchmark
    pairs: tuple[Pair, ...]  # all that were compared on one benchmark
    failures: tuple[FailureGroup, ...]
    time: tuple[TimeSpent, ...]
    spent: tuple[Spent, ...]  # by model × config: attempts, GPU-hours, energy, money, memory
    notes: tuple[str, ...]  # what a reader should know before trusting the numbers
    serving: tuple[ServingPoint, ...] = ()  # load points of servers
    suites: tuple[SuiteScore, ...] = ()  # of each model × config
    best_suites: tuple[Winner, ...] = ()  # one for each suite that has a score
    judged: tuple[Judged, ...] = ()  # what judges said of the answers
    rentals: tuple[RentalCost, ...] = ()  # by currency, of the whole campaign
    race: tuple[RaceSaving, ...] = ()  # configs that a race stopped

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What makes scores doubtful: prompts that were cut, answers that ended otherwise than they
        should, and requests that failed."""
        named = (
            (f"{entry.model} / {entry.config} / {entry.benchmark}", entry.endings)
            for entry in self.entries
        )
        # All configs of a model get the same prompts.
        cut = {f"{one.model} / {one.benchmark}": one.endings.truncated for one in self.entries}
        beginning = (*truncation_warning(cut), *first_warnings(named))
        return (*beginning, *first_load_warnings(self.serving))

    @cached_property
    def entry_at(self) -> Mapping[tuple[str, str, str], Entry]:
        """The entries by model, config and benchmark; what the matrix leaves out is absent."""
        return {(entry.model, entry.config, entry.benchmark): entry for entry in self.entries}

    @cached_property
    def largest_mean(self) -> Mapping[str, float]:
        """The largest absolute mean of each benchmark that has one, and of each suite."""
        largest: dict[str, float] = {}
        means = [(one.benchmark, one.mean) for one in self.entries]
        for name, mean_ in [*means, *((one.suite, one.mean) for one in self.suites)]:
            if mean_ is not None:
                largest[name] = max(abs(mean_), largest.get(name, 0.0))
        return largest

    def values(self) -> Iterator[tuple[str, Any]]:
        """Each field with its JSON values; a long list is an iterator, which makes its items."""
        own = {
            "counts": dict(self.counts),
            "entries": (entry.to_dict() for entry in self.entries),
            "best": [_with_lead(winner) for winner in self.best],
            "winners": (_with_lead(winner) for winner in self.winners),
            "pairs": ({**_plain(p), "difference": p.difference.to_dict()} for p in self.pairs),
            "failures": [{n: getattr(one, n) for n in _FAILURE_KEYS} for one in self.failures],
            "time": [{**_plain(spent), "seconds": dict(spent.seconds)} for spent in self.time],
            "spent": [spent.to_dict() for spent in self.spent],
            "serving": [point.to_dict() for point in self.serving],
            "judged": [one.to_dict() for one in self.judged],
            "rentals": [one.to_dict() for one in self.rentals],
            "race": [one.to_dict() for one in self.race],
            "suites": [score.to_dict() for score in self.suites],
            "best_suites": [_with_lead(winner) for winner in self.best_suites],
        }
        for name, value in _plain(self).items():
            yield name, own.get(name, value)
        yield "warnings", list(self.warnings)
        yield "spent_in_all", total(self.spent).to_dict()


def compare(
    records: Sequence[CellRecord],
    cells: Sequence[Cell],
    scores: Scores,
    baseline: str | None = None,
    bills: Mapping[str, UsageTotal] | None = None,
    details: Details = lambda record: {},
    suites: Sequence[Suite] = (),
) -> Comparison:
    """What the campaign's cells say, as the ledger's records have them.

    `scores` reads a successful cell's score by sample id, empty where its benchmark has none.
    The baseline is the config named, else the first without attention steps, else the first.
    `bills` are what the attempts of each cell used up, by fingerprint.
    `details` reads the metrics of a serving cell's result. `suites` are the campaign's.
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
    ranked_rows = [row for row in rows if row.is_ranked]
    planned = against_baseline(ranked_rows, baseline_name)
    ranked = ranking(ranked_rows, baseline_name, planned)
    full_names = {columns[cell.fingerprint]: cell.workload.full_name for cell in cells}
    scored, best_suites = suite_scores(
        suites, ranked_rows, full_names, baseline_name, ranked.differ
    )
    members: dict[tuple[str, str, str], list[tuple[Cell, CellRecord | None]]] = {}
    for cell, record in pairs:
        key = cell.model.name, cell.config.name, columns[cell.fingerprint]
        members.setdefault(key, []).append((cell, record))
    spent = {key: spent_on(*key[:2], some, bills or {}) for key, some in members.items()}
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
                members[row.model, config, row.benchmark][0][0],
                spent[row.model, config, row.benchmark],
            )
            for row in rows
            for config, pool in row.pools.items()
        ),
        best=ranked.best,
        winners=ranked.by_model,
        pairs=ranked.pairs,
        failures=grouped_failures(known_records, cells),
        time=_time(pairs),
        spent=by_config(spent.values()),
        notes=tuple(notes(rows, known_records)),
        serving=serving_points(pairs, details),
        suites=scored,
        best_suites=best_suites,
    )


def _baseline(cells: Sequence[Cell], named: str | None) -> str:
    configs = {cell.config.name: cell.config for cell in cells}
    if named is None:
        dense = [name for name, config in configs.items() if not config.attention]
        return next(iter([*dense, *configs]), "")
    if named not in configs:
        raise UnknownName(f"no config {named!r} to compare with; {hint(named, configs)}")
    return named


def _entry(
    row: Row,
    config: str,
    pool: Pool,
    difference: Difference | None,
    cell: Cell,
    spent: Spent,
) -> Entry:
    workload, model = cell.workload, cell.model
    return Entry(
        model=row.model,
        config=config,
        benchmark=row.benchmark,
        family=workload.benchmark,
        length=subset_length(workload.subset or ""),
        series=model.series,
        step=model.step,
        states=dict(pool.states),
        mean=pool.mean if pool.values else None,
        stderr=pool.stderr,
        samples=round(pool.total("samples") - pool.total("unscored")),
        density=pool.density(),
        tokens_per_second=pool.tokens_per_second(),
        difference=difference,
        spent=spent,
        endings=Endings() if pool.loads_server else endings_of(pool.outcomes),
    )


def _time(pairs: Iterable[tuple[Cell, CellRecord | None]]) -> tuple[TimeSpent, ...]:
    spent: dict[tuple[str, str], dict[str, float]] = {}
    for cell, record in pairs:
        if record and record.outcome and not record.outcome.taken_from:
            stages = spent.setdefault((cell.model.name, cell.config.name), {})
            for stage, seconds in record.outcome.seconds.items():
                stages[stage] = stages.get(stage, 0.0) + seconds
    return tuple(
        TimeSpent(model=model, config=config, seconds=stages)
        for (model, config), stages in spent.items()
        if stages
    )


def _with_lead(winner: Winner) -> dict[str, Any]:
    return {**_plain(winner), "lead": winner.lead.to_dict() if winner.lead else None}


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass's own fields, tuples as lists."""
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in fields.items()}
