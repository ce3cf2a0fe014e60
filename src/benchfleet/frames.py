"""Results from Python: `benchfleet.load` gives a campaign's cells, samples and comparisons as data
frames, its status, and charts that notebooks show."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from benchfleet.campaign.load import load_campaign
from benchfleet.campaign.selection import choose_cells
from benchfleet.campaign_results import comparison_of, side_of
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.errors import BenchfleetError, MissingExtra, UnknownName
from benchfleet.garbage import no_collection
from benchfleet.hints import hint
from benchfleet.judgements import with_judgements
from benchfleet.ledger.history import ATTEMPT_EVENTS, Attempt, attempts_by_cell
from benchfleet.ledger_campaign import campaign_of
from benchfleet.reports.charts.base import DATA
from benchfleet.reports.charts.collection import REASONS, charts_of_kind
from benchfleet.reports.charts.images import stacked
from benchfleet.reports.charts.timeline import Spans, longest_spans
from benchfleet.reports.pooling import column_names
from benchfleet.reports.side_by_side import DEFAULT_MIN_EFFECT, changes
from benchfleet.reports.statistics import Difference
from benchfleet.reports.suites import SuiteScore
from benchfleet.reports.tables import Comparison
from benchfleet.results.layout import SAMPLES, Layout
from benchfleet.results.read import is_published
from benchfleet.results.samples import read_samples
from benchfleet.status import Status, status_of
from benchfleet.study import Study, open_study

FrameLibrary = Literal["pandas", "polars"]
_AXES = ("cell", "model", "config", "label", "benchmark", "subset", "repeat")
_SAMPLE_COLUMNS = (
    *("sample", "index", "score", "answer", "prompt_tokens", "completion_tokens", "seconds"),
    *("finish", "ended", "question", "draw", "reasoning", "reasoning_tokens", "error", "context"),
)
_ATTEMPT_COLUMNS = (
    *("attempt", "runner", "began", "ended", "how", "state", "host", "device", "failure"),
)
_OF_SUITE = ("difference", "p_value", "adjusted_p", "sure", "low", "high")  # its difference
_KEYS = {"sample": "id", "answer": "predicted_answer"}  # of these columns in samples.jsonl


@no_collection()
def load(
    source: str | Path,
    *,
    ledger: str = "",
    only: str | Sequence[str] = (),
    frames: FrameLibrary = "pandas",
) -> Results:
    """The results of a campaign file, of a campaign's results folder, or of a ledger's address.

    `only` selects cells as on the command line: ``"models=llama*"``, or several. `frames` names the
    library of the data frames. Nothing is read before it is asked for. Raises `CampaignError`,
    `LedgerError`, `UnknownName` for another library, or `MissingExtra` if it is not installed.
    """
    if frames not in get_args(FrameLibrary):
        raise UnknownName(f"no data frames of {frames!r}; {hint(frames, get_args(FrameLibrary))}")
    if find_spec(frames) is None:
        install = "'benchfleet[report]'" if frames == "pandas" else frames
        raise MissingExtra(f"data frames need {frames}; pip install {install}")
    text = str(source)
    if "://" in text:
        study = open_study(campaign_of(text), ledger=text)
    elif (folder := Path(text)).is_dir():
        file = Layout(folder).ledger
        if not file.is_file():
            raise BenchfleetError(
                f"{folder} has no ledger; give the campaign file, or the folder with its ledger.db"
            )
        address = f"sqlite:///{file.absolute()}"
        study = open_study(campaign_of(address), ledger=address)
    else:
        study = open_study(load_campaign(source), ledger=ledger)
    texts = [only] if isinstance(only, str) else only
    cells = with_judgements(study, choose_cells(study.cells(), only=texts, option="only"))
    return Results(study, study.marked(cells), frames)


class Results:
    """A campaign's results; each frame is read once, when it is first used."""

    def __init__(self, study: Study, cells: Sequence[Cell], frames: FrameLibrary) -> None:
        self._study, self._cells, self._frames = study, cells, frames

    def status(self) -> Status:
        """How far the campaign is, as `benchfleet status` shows it."""
        return status_of(self._study, self._cells)

    @cached_property
    @no_collection()
    def cells(self) -> Any:
        """One row a cell: its axes, state, score, seconds by stage, host and failure."""
        records = self._record_of
        return self._frame([self._cell_row(c, records.get(c.fingerprint)) for c in self._cells])

    @cached_property
    @no_collection()
    def samples(self) -> Any:
        """One row a sample of every published result: its answer, score and tokens."""
        rows = []
        for cell in self._cells:
            record = self._record_of.get(cell.fingerprint)
            digest = record.outcome.digest if record and record.outcome else ""
            if record is None or not is_published(self._study.layout, record.path, digest):
                continue
            samples = read_samples(self._study.layout.published(record.path) / SAMPLES)
            axes = self._axes(cell)
            rows += [
                {**axes, **{name: one.get(_KEYS.get(name, name)) for name in _SAMPLE_COLUMNS}}
                for one in samples.values()
            ]
        return self._frame(rows, empty=(*_AXES, *_SAMPLE_COLUMNS))

    @cached_property
    @no_collection()
    def attempts(self) -> Any:
        """One row an attempt: when it began and ended, where, and how."""
        cells = {str(cell.fingerprint): cell for cell in self._cells}
        rows = [
            _attempt_row(self._axes(cells[fingerprint]), attempt)
            for fingerprint, some in self._attempts.items()
            if fingerprint in cells
            for attempt in some
        ]
        return self._frame(rows, empty=(*_AXES, *_ATTEMPT_COLUMNS))

    @cached_property
    @no_collection()
    def comparisons(self) -> Any:
        """One row for each compared pair of models × configs: the first less the second. Its
        `label` is that of the compared cells."""
        rows = []
        for pair in self.comparison.pairs:
            rows.append(
                {
                    **self._names_of.get(pair.benchmark, {}),
                    "first_model": pair.first[0],
                    "first_config": pair.first[1],
                    "second_model": pair.second[0],
                    "second_config": pair.second[1],
                    **_with_bounds(pair.difference.to_dict()),
                }
            )
        sides = ("first_model", "first_config", "second_model", "second_config")
        figures = _with_bounds(Difference(n=0, difference=None).to_dict())
        return self._frame(rows, empty=("label", "benchmark", "subset", *sides, *figures))

    @cached_property
    def suites(self) -> Any:
        """One row for each suite and model × config: its score, and how it differs from the
        baseline's."""
        rows = [_suite_row(score) for score in self.comparison.suites]
        own = [one.name for one in fields(SuiteScore) if one.name not in _OF_SUITE]
        return self._frame(rows, empty=(*own, *_OF_SUITE))

    @cached_property
    @no_collection()
    def comparison(self) -> Comparison:
        """All that a report says, as plain values."""
        return comparison_of(self._study, self._cells, self._records)

    def compare(self, before: str, after: str, *, min_effect: float = DEFAULT_MIN_EFFECT) -> Any:
        """What changes from one selection to another, such as ``configs=dense`` and
        ``configs=streaming``: a frame with a row for each model × config × benchmark."""
        study, cells, rows = self._study, self._cells, []
        first, second = (
            side_of(study, one.split(":"), name=one, cells=cells) for one in (before, after)
        )
        for change in changes(first, second, min_effect=min_effect):
            values = change.to_dict()
            difference = _with_bounds(values.pop("difference"))
            flips = {name: len(values.pop(name)) for name in ("gained", "lost")}
            names = self._names_of.get(change.benchmark, {"label": change.label})
            rows.append({**values, **names, **flips, **difference})
        return self._frame(rows)

    def chart(self, kind: str) -> Any:
        """A chart as Altair has it, which notebooks show: the kinds of `report --chart`. Raises
        `UnknownName`, `MissingExtra`, and `BenchfleetError` if no result has what it shows."""
        times = longest_spans(self._cells, self._attempts) if kind == "timeline" else Spans()
        if not (drawn := charts_of_kind(kind, self.comparison, times)):
            raise BenchfleetError(f"no chart {kind!r} yet: {REASONS[kind]}")
        import altair as alt

        if len(drawn) == 1:
            (chart,) = drawn
            spec = {**chart.spec, "title": chart.title}
            spec |= {"datasets": {DATA: [*chart.rows]}} if chart.rows else {}
        else:
            spec = stacked(drawn)
        return alt.Chart.from_dict({key: part for key, part in spec.items() if key != "config"})

    @cached_property
    def _records(self) -> list[CellRecord]:
        records = self._study.records(self._cells)
        if not records and not self._study.has_ledger():
            warnings.warn(
                f"{self._study.ledger_text} has no ledger of {self._study.campaign.name!r}: "
                "nothing has run there; if it ran elsewhere, load its results folder or its ledger",
                stacklevel=2,
            )
        return self._study.race().as_skipped(records)

    @cached_property
    def _record_of(self) -> Mapping[str, CellRecord]:
        return {record.fingerprint: record for record in self._records}

    @cached_property
    def _labels(self) -> Mapping[Fingerprint, str]:
        """What reports call the benchmark of each cell, by fingerprint."""
        return column_names(self._cells)

    @cached_property
    def _names_of(self) -> Mapping[str, Mapping[str, Any]]:
        """The label of each benchmark with its parts."""
        return {self._labels[cell.fingerprint]: self._benchmark_names(cell) for cell in self._cells}

    def _benchmark_names(self, cell: Cell) -> dict[str, Any]:
        names = {"benchmark": cell.workload.name, "subset": cell.workload.subset}
        return {"label": self._labels[cell.fingerprint], **names}

    def _axes(self, cell: Cell) -> dict[str, Any]:
        return {
            "cell": cell.id,
            "model": cell.model.name,
            "config": cell.config.name,
            **self._benchmark_names(cell),
            "repeat": cell.repeat,
        }

    @cached_property
    def _attempts(self) -> Mapping[str, Sequence[Attempt]]:
        nothing: dict[str, list[Attempt]] = {}
        return self._study.query(
            lambda ledger: attempts_by_cell(ledger.events(kinds=ATTEMPT_EVENTS)), default=nothing
        )

    def _cell_row(self, cell: Cell, record: CellRecord | None) -> dict[str, Any]:
        outcome = record.outcome if record else None
        metrics = outcome.metrics if outcome else {}
        reason = outcome.reason if outcome else None
        return {
            **self._axes(cell),
            "state": record.state if record else "pending",
            "score": metrics.get("overall_score"),
            "samples": metrics.get("samples"),
            "density": metrics.get("density"),
            "load_seconds": outcome.seconds.get("load") if outcome else None,
            "benchmark_seconds": outcome.seconds.get("benchmark") if outcome else None,
            "host": outcome.host if outcome else None,
            "device": outcome.device if outcome else None,
            "failure_stage": reason.stage if reason else None,
            "failure_kind": reason.kind if reason else None,
            "failure": reason.message if reason else None,
            "path": record.path if record else None,
            "fingerprint": cell.fingerprint,
        }

    def _frame(self, rows: Sequence[Mapping[str, Any]], *, empty: Sequence[str] = ()) -> Any:
        """A frame of the rows; without any it has the columns `empty`."""
        if self._frames == "polars":
            import polars

            schema = None if rows else [*empty]
            return polars.DataFrame([*rows], schema=schema, infer_schema_length=None)
        import pandas

        return pandas.DataFrame([*rows], columns=None if rows else [*empty])


def _with_bounds(difference: dict[str, Any]) -> dict[str, Any]:
    """Its interval as two columns."""
    low, high = difference.pop("interval", None) or (None, None)
    return {**difference, "low": low, "high": high}


def _suite_row(score: SuiteScore) -> dict[str, Any]:
    values = score.to_dict()
    difference = _with_bounds(values.pop("difference") or {})
    return {**values, **{name: difference.get(name) for name in _OF_SUITE}}


def _attempt_row(axes: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
    how = attempt.how or "running"
    values = (attempt.attempt, attempt.runner, attempt.claimed_at, attempt.ended_at, how)
    of_outcome = (getattr(attempt.outcome, one, None) for one in ("state", "host", "device", "why"))
    return {**axes, **dict(zip(_ATTEMPT_COLUMNS, (*values, *of_outcome), strict=True))}
