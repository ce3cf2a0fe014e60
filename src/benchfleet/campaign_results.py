"""The results of a campaign as reports read them: scores by sample, and the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchfleet.campaign.dates import split_dates
from benchfleet.campaign.selection import choose_cells, fixed_axes
from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.judgements import Judgement, is_judgement, judgements, with_judgements
from benchfleet.ledger.history import ATTEMPT_EVENTS, Attempt, attempts_by_cell, counts
from benchfleet.reports.failures import grouped_failures
from benchfleet.reports.judging import Judged, judged
from benchfleet.reports.pooling import Scores
from benchfleet.reports.race_savings import race_savings, saved_texts
from benchfleet.reports.side_by_side import Side
from benchfleet.reports.spending import spending
from benchfleet.reports.tables import Comparison, compare
from benchfleet.results.layout import SAMPLES
from benchfleet.results.read import is_published, published_metrics
from benchfleet.results.samples import read_samples
from benchfleet.results.score_reader import ScoreReader
from benchfleet.study import Study

_METRICS_OF_VERDICTS = ("overall_score", "samples", "unscored")  # others are about the judge


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
    by_judges = {cell.fingerprint for cell in cells if is_judgement(cell)}
    verdicts = _verdicts(study, answers, records) if by_judges else []
    verdicts = [one for one in verdicts if one[1].fingerprint in by_judges]
    judged_cells, judged_records = _as_results(verdicts)
    bills = study.bills(records)
    bills |= {
        counted.fingerprint: bills[record.fingerprint]
        for counted, (_, record) in zip(judged_records, _on_a_scale(verdicts), strict=True)
        if record.fingerprint in bills
    }
    comparison = compare(
        [*records, *judged_records],
        [*answers, *judged_cells],
        scores or sample_scores_of(study, records),
        baseline,
        bills,
        lambda record: _serving_metrics(study, record),
        study.campaign.suites,
    )
    comparison = replace(
        comparison,
        rentals=study.rental_costs(),
        race=savings,
        notes=(*saved_texts(savings), *comparison.notes),
    )
    if not by_judges:
        return comparison
    chosen = {cell.fingerprint for cell in cells}
    known_records = [record for record in records if record.fingerprint in chosen]
    record_of = {record.fingerprint: record for record in known_records}
    return replace(
        comparison,
        judged=tuple(_judged(study, verdicts)),
        spent=spending([(cell, record_of.get(cell.fingerprint)) for cell in cells], bills),
        failures=grouped_failures(known_records, cells),
        counts=counts(known_records, total=len(cells)),
    )


def _verdicts(
    study: Study, answers: Sequence[Cell], records: Sequence[CellRecord]
) -> list[tuple[Judgement, CellRecord]]:
    """The judgements of these cells' answers that have a result here."""
    record_of = {record.fingerprint: record for record in records}
    results = []
    for one in judgements(study, answers):
        record = record_of.get(one.cell.fingerprint)
        outcome = record.outcome if record and record.state == "success" else None
        if record and outcome and is_published(study.layout, record.path, outcome.digest):
            results.append((one, record))
    return results


def _as_results(
    verdicts: Sequence[tuple[Judgement, CellRecord]],
) -> tuple[list[Cell], list[CellRecord]]:
    """Verdicts on a scale as results of the cells that were judged, of a benchmark for each judge:
    so they are pooled, ranked and compared as all scores are."""
    cells, records = list[Cell](), list[CellRecord]()
    for one, record in _on_a_scale(verdicts):
        work = one.of.workload
        by_judge = replace(
            work,
            called=f"{work.label} (judge {one.judge})",
            subset=None,
            limit=None,
            params={
                "of": {"subset": work.subset, "limit": work.limit, **work.params},
                "judge": one.judge,
                **one.cell.workload.params,
            },
        )
        cell = replace(one.of, workload=by_judge)
        assert record.outcome is not None  # noqa: S101 - it is a result
        metrics = record.outcome.metrics
        own_metrics = {name: metrics[name] for name in _METRICS_OF_VERDICTS if name in metrics}
        outcome = Outcome(
            state="success",
            digest=record.outcome.digest,
            metrics=own_metrics,
            host=record.outcome.host,
            device=record.outcome.device,
            usage=record.outcome.usage,
        )
        cells.append(cell)
        records.append(replace(record, fingerprint=cell.fingerprint, outcome=outcome))
    return cells, records


def _on_a_scale(
    verdicts: Sequence[tuple[Judgement, CellRecord]],
) -> list[tuple[Judgement, CellRecord]]:
    """Those that are no win rate over the baseline."""
    return [one for one in verdicts if one[0].cell.workload.params["scale"] is not None]


def _judged(study: Study, verdicts: Iterable[tuple[Judgement, CellRecord]]) -> Iterator[Judged]:
    """What the judges said."""
    for one, record in verdicts:
        samples = [*read_samples(study.layout.published(record.path) / SAMPLES).values()]
        label = f"{one.of.label}/r{one.of.repeat}" if one.of.repeats else one.of.label
        names = (one.of.model.name, one.of.config.name, label, one.judge)
        judged_answers = read_samples(one.cell.workload.outside["answers"]).values()
        reported = record.outcome.reported if record.outcome else {}
        if row := judged(names, samples, reported, judged_answers):
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
    records = study.records(with_judgements(study, chosen))
    if dates:
        nothing: dict[str, list[Attempt]] = {}
        attempts = study.query(
            lambda ledger: attempts_by_cell(ledger.events(kinds=ATTEMPT_EVENTS)), default=nothing
        )
        records = [one for one in records if dates.includes(attempts.get(one.fingerprint, ()))]
    judged_cells, judged_records = _as_results(_verdicts(study, chosen, records))
    savings = tuple(race_savings(study.race(), chosen, records))
    return Side(
        name=name,
        cells=[*chosen, *judged_cells],
        records=[*records, *judged_records],
        scores=sample_scores_of(study, records),
        fixed=fixed_axes(chosen, axes),
        suites=study.campaign.suites,
        notes=saved_texts(savings),
    )
