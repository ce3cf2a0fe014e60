"""The results of a campaign as reports read them: scores by sample, and the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchfleet.campaign.dates import split_dates
from benchfleet.campaign.selection import choose_cells, fixed_axes
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.judgements import is_judgement, judgements
from benchfleet.ledger.history import ATTEMPT_EVENTS, Attempt, attempts_by_cell, counts
from benchfleet.reports.failures import grouped_failures
from benchfleet.reports.judging import Judged, judged
from benchfleet.reports.pooling import Scores
from benchfleet.reports.race_savings import race_savings, saved_texts
from benchfleet.reports.side_by_side import Side
from benchfleet.reports.tables import Comparison, compare
from benchfleet.results.layout import SAMPLES
from benchfleet.results.read import is_published, published_metrics
from benchfleet.results.samples import read_samples
from benchfleet.results.score_reader import ScoreReader
from benchfleet.study import Study


def comparison_of(
    study: Study,
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    baseline: str | None = None,
    scores: Scores | None = None,
) -> Comparison:
    """The comparison of a campaign's cells, with the samples of its results folder. `scores` is
    what `sample_scores_of` gives for these records, if that reads already."""
    cells = study.marked(cells)
    answers = [cell for cell in cells if not is_judgement(cell)]
    history = study.race()
    savings = tuple(race_savings(history, answers, records))
    records = history.as_skipped(records)
    comparison = compare(
        records,
        answers,
        scores or sample_scores_of(study, records),
        baseline,
        study.bills(records),
        lambda record: _serving_metrics(study, record),
        study.campaign.suites,
    )
    comparison = replace(
        comparison,
        rentals=study.rental_costs(),
        race=savings,
        notes=(*saved_texts(savings), *comparison.notes),
    )
    if not any(map(is_judgement, cells)):
        return comparison
    chosen = {cell.fingerprint for cell in cells}
    known_records = [record for record in records if record.fingerprint in chosen]
    return replace(
        comparison,
        judged=tuple(_judged(study, cells, records)),
        failures=grouped_failures(known_records, cells),
        counts=counts(known_records, total=len(cells)),
    )


def _judged(study: Study, cells: Sequence[Cell], records: Sequence[CellRecord]) -> Iterator[Judged]:
    """What the judges among these cells said."""
    record_of = {record.fingerprint: record for record in records}
    chosen = {cell.fingerprint for cell in cells if is_judgement(cell)}
    if not chosen:
        return
    answers = [cell for cell in cells if not is_judgement(cell)]
    for one in judgements(study, answers):
        record = record_of.get(one.cell.fingerprint)
        outcome = record.outcome if record and record.state == "success" else None
        if record is None or outcome is None or one.cell.fingerprint not in chosen:
            continue
        if is_published(study.layout, record.path, outcome.digest):
            samples = [*read_samples(study.layout.published(record.path) / SAMPLES).values()]
            label = f"{one.of.label}/r{one.of.repeat}" if one.of.repeats else one.of.label
            names = (one.of.model.name, one.of.config.name, label, one.judge)
            judged_answers = read_samples(one.cell.workload.outside["answers"]).values()
            if row := judged(names, samples, outcome.reported, judged_answers):
                yield row


def _serving_metrics(study: Study, record: CellRecord) -> Mapping[str, Any]:
    """The metrics of a published serving result; none where another thing lies at its path."""
    digest = record.outcome.digest if record.outcome else ""
    try:
        metrics = published_metrics(study.layout, record.path, digest)
    except (ResultsError, OSError):
        return {}
    serving = metrics["summary"].get("serving")
    return serving if isinstance(serving, Mapping) else {}


def sample_scores_of(study: Study, records: Iterable[CellRecord]) -> Scores:
    """What reads the samples' scores of these records from the campaign's results folder; none
    where another thing lies at a result's path."""
    reader = ScoreReader(
        study.layout.root, [record.path for record in records if record.state == "success"]
    )
    return lambda record: reader(record.path, record.outcome.digest if record.outcome else "")


def side_of(
    study: Study,
    selections: Sequence[str],
    *,
    name: str,
    cells: Sequence[Cell],
) -> Side:
    """One of two sets of results to compare: of these cells those that the selections choose.

    A selection is ``axis=name``, or ``since=DATE`` or ``until=DATE`` for results that ended from
    then on, or before. Raises CampaignError for a wrong one.
    """
    dates, axes = split_dates(selections)
    chosen = study.marked(choose_cells(cells, only=axes, option=""))
    records = study.records(chosen)
    if dates:
        nothing: dict[str, list[Attempt]] = {}
        attempts = study.query(
            lambda ledger: attempts_by_cell(ledger.events(kinds=ATTEMPT_EVENTS)), default=nothing
        )
        records = [one for one in records if dates.includes(attempts.get(one.fingerprint, ()))]
    return Side(
        name=name,
        cells=chosen,
        records=records,
        scores=sample_scores_of(study, records),
        fixed=fixed_axes(chosen, axes),
        suites=study.campaign.suites,
    )
