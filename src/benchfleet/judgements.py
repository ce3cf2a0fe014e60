"""The cells of a campaign's judges: they exist once the answers to be judged are published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchfleet.benchmarks.judge import Judge
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell, Config, Workload
from benchfleet.domain.matrix import Matrix, ModelEntry
from benchfleet.results.layout import SAMPLES
from benchfleet.results.read import is_published
from benchfleet.study import Study

BENCHMARK = "judge"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A judge's cell, and the cell whose answers it judges."""

    of: Cell
    judge: str
    cell: Cell


def is_judgement(cell: Cell) -> bool:
    """Whether the cell is a judge's."""
    return cell.workload.benchmark == BENCHMARK


def judgements(study: Study, cells: Sequence[Cell]) -> list[Judgement]:
    """Those of these cells whose answers are published in this folder."""
    judged = [cell for cell in cells if cell.workload.judge and not is_judgement(cell)]
    if not judged:
        return []
    records = {record.fingerprint: record for record in study.records(cells)}
    files: dict[str, str] = {
        cell.fingerprint: file
        for cell in cells
        if (file := _answers(study, records.get(cell.fingerprint)))
    }
    return [one for cell in judged for one in _of_cell(study, cell, cells, files)]


def with_judgements(study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """The cells, and those of the judges of published answers: each once."""
    own = [cell for cell in cells if not is_judgement(cell)]
    return list(dict.fromkeys([*own, *(one.cell for one in judgements(study, own))]))


def _answers(study: Study, record: CellRecord | None) -> str:
    outcome = record.outcome if record and record.state == "success" else None
    if record is None or outcome is None:
        return ""
    if not is_published(study.layout, record.path, outcome.digest):
        return ""
    return str((study.layout.published(record.path) / SAMPLES).absolute())


def _of_cell(
    study: Study, cell: Cell, cells: Sequence[Cell], files: Mapping[str, str]
) -> Iterator[Judgement]:
    judge, answers = cell.workload.judge, files.get(cell.fingerprint, "")
    baseline = ""
    if pairwise := str(judge.get("pairwise") or ""):
        if cell.config.name == pairwise:
            return
        other = _like(cell, pairwise, cells)
        baseline = files.get(other.fingerprint, "") if other else ""
        if not baseline:
            return
    if not answers:
        return
    for name in judge["models"]:
        if entry := _entry(study.campaign.matrix, name):
            params = {
                "rubric": judge["rubric"],
                "scale": None if pairwise else judge["scale"],
                "answers": answers,
                "baseline": baseline,
                "of": {
                    "model": cell.model.name,
                    "config": cell.config.name,
                    "benchmark": cell.label,
                    "repeat": cell.repeat,
                },
            }
            yield Judgement(of=cell, judge=name, cell=_cell(cell, entry, params, judge))


def _cell(
    cell: Cell, entry: ModelEntry, params: Mapping[str, Any], judge: Mapping[str, Any]
) -> Cell:
    benchmark = Judge(params)
    parts = [cell.label, cell.model.name, cell.config.name]
    parts += [f"r{cell.repeat}"] if cell.repeats else []
    return Cell(
        model=entry.model,
        config=entry.chatting(Config(name="dense")),
        workload=Workload(
            benchmark=BENCHMARK,
            version=Judge.version,
            params=dict(benchmark.params()),
            data_digest=benchmark.data_digest(None),
            generation={**Judge.default_generation, **judge.get("generation", {})},
            called=f"judge_{'_'.join(parts)}",
            outside=dict(benchmark.outside()),
        ),
        need=entry.need,
        limits=entry.limits or cell.limits,
        priority=cell.priority,
    )


def _like(cell: Cell, config: str, cells: Sequence[Cell]) -> Cell | None:
    """The cell of another config that asks the same."""
    for other in cells:
        same = (other.model, other.workload.label, other.repeat) == (
            cell.model,
            cell.workload.label,
            cell.repeat,
        )
        if same and other.config.name == config:
            return other
    return None


def _entry(matrix: Matrix, name: str) -> ModelEntry | None:
    for part in (matrix, *matrix.parts):
        for entry in part.models:
            if entry.model.name == name:
                return replace(entry, workloads=())
    return None
