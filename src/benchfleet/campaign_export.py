"""The sealed results of a campaign for exporters, and what is missing of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError, ExportError, ResultsError
from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.ledger.history import ATTEMPT_EVENTS, Attempt, attempts_by_cell
from benchfleet.results.layout import CELL, SAMPLES
from benchfleet.results.read import damage, published_metrics, sealed
from benchfleet.results.samples import read_samples
from benchfleet.study import Study


@dataclass(frozen=True, kw_only=True)
class MissingResult:
    """A cell that has no result to export."""

    cell: str  # its path
    reason: str
    lost: bool  # the ledger has a result, and this folder has not

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@dataclass(frozen=True, kw_only=True)
class Export:
    """What an export did."""

    new: int
    replaced: int
    unchanged: int
    missing: Sequence[MissingResult]

    def to_dict(self) -> dict[str, Any]:
        counts = {"new": self.new, "replaced": self.replaced, "unchanged": self.unchanged}
        return {**counts, "missing": [one.to_dict() for one in self.missing]}


def export(study: Study, cells: Sequence[Cell], exporter: Exporter) -> Export:
    """Export the results of these cells that are not there yet. Raises `ExportError`."""
    with _library_errors(exporter):
        present = exporter.digests()
    records = {one.fingerprint: one for one in study.race().as_skipped(study.records(cells))}
    attempts = _attempts(study)
    missing, changed = [], []
    unchanged = 0
    for cell in cells:
        record = records.get(cell.fingerprint)
        outcome = record.outcome if record else None
        if record is None or outcome is None or record.state != "success":
            missing.append(_missing(cell, record))
        elif present.get(cell.fingerprint) == outcome.digest:
            unchanged += 1
        else:
            try:
                tries = attempts.get(cell.fingerprint, [])
                last = tries[-1] if tries else None
                changed.append(_result(study, cell, record, outcome.digest, last))
            except (ResultsError, OSError) as error:
                missing.append(MissingResult(cell=record.path, reason=str(error), lost=True))
    if changed:
        with _library_errors(exporter):
            exporter.put(changed)
    replaced = sum(result.fingerprint in present for result in changed)
    return Export(
        new=len(changed) - replaced, replaced=replaced, unchanged=unchanged, missing=missing
    )


@contextmanager
def _library_errors(exporter: Exporter) -> Iterator[None]:
    """Whatever the tool's own library raises is an `ExportError` of one line."""
    try:
        yield
    except BenchfleetError:
        raise
    except Exception as error:
        why = str(error).strip().partition("\n")[0]
        message = f"{exporter.where}: {type(error).__name__}{f': {why}' if why else ''}"
        raise ExportError(message) from error


def _missing(cell: Cell, record: CellRecord | None) -> MissingResult:
    if record is None:
        return MissingResult(cell=cell.id, reason="pending", lost=False)
    why = record.outcome.why if record.outcome else ""
    reason = f"{record.state}: {why}" if why else record.state
    return MissingResult(cell=record.path, reason=reason, lost=False)


def _result(
    study: Study, cell: Cell, record: CellRecord, digest: str, attempt: Attempt | None
) -> ExportedResult:
    """A result, compared with its seal. Raises ResultsError where it is not whole."""
    folder = study.layout.published(record.path)
    if not (folder / CELL).exists():
        raise ResultsError(
            "its folder is not here; `benchfleet merge CAMPAIGN` fetches those of other hosts"
        )
    seal, _ = sealed(folder)
    metrics = published_metrics(study.layout, record.path, digest)
    if wrong := damage(folder, seal):
        raise ResultsError(f"{wrong}; `benchfleet verify CAMPAIGN --repair` says what to do")
    written = (folder / CELL).stat().st_mtime
    ended = attempt.ended_at if attempt and attempt.ended_at else written
    seconds = sum(seal["seconds"].values())
    return ExportedResult(
        cell=cell,
        path=record.path,
        digest=digest,
        score=float(metrics["overall_score"]),
        scale=benchmark_class(cell.workload.benchmark).scale,
        stderr=_number(seal["metrics"].get("stderr")),
        summary=seal["metrics"] | _plain(metrics["summary"]),
        tasks={
            k: float(v) for k, v in _plain(metrics["task_scores"]).items() if _number(v) is not None
        },
        provenance=seal["provenance"],
        seconds=seal["seconds"],
        began=ended - seconds,
        ended=ended,
        folder=folder,
        samples=partial(_samples, folder / SAMPLES),
    )


def _samples(file: Path) -> list[dict[str, Any]]:
    return [_encodable(sample) for _, sample in sorted(read_samples(file).items())]


def _encodable(value: Any) -> Any:
    """The same JSON value, with � for what no encoding has: halves of surrogate pairs."""
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, list):
        return [*map(_encodable, value)]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    return value


def _plain(value: Any) -> dict[str, Any]:
    """A mapping of a script's own metrics.json; empty for anything else."""
    return dict(value) if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _attempts(study: Study) -> dict[str, list[Attempt]]:
    nothing: dict[str, list[Attempt]] = {}
    return study.query(
        lambda ledger: attempts_by_cell(ledger.events(kinds=ATTEMPT_EVENTS)), default=nothing
    )
