"""Which cell of a campaign a result of another harness is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.benchmarks.serving.settings import Settings
from benchfleet.domain.cell import Cell, Workload
from benchfleet.domain.humanize import counted

from .result import ForeignResult


@dataclass(frozen=True, kw_only=True)
class Matches:
    """Results with their cells, and those of no cell with the reason."""

    cells: Sequence[tuple[Cell, ForeignResult]]
    others: Sequence[tuple[ForeignResult, str]]


def match(cells: Iterable[Cell], results: Iterable[ForeignResult], *, config: str) -> Matches:
    """The cell of each result; `config` is the one of harnesses that have none.

    Of several results of one cell the last counts. A result of another limit is of no cell.
    """
    first_repeats = [cell for cell in cells if cell.repeat == 0]
    pairs: dict[str, tuple[Cell, ForeignResult]] = {}
    others: list[tuple[ForeignResult, str]] = []
    for result in results:
        cell, why = _cell(first_repeats, result, config)
        if cell is None:
            others.append((result, why))
            continue
        if earlier := pairs.get(cell.fingerprint):
            others.append((earlier[1], "another result of the same cell comes after it"))
        pairs[cell.fingerprint] = cell, result
    return Matches(cells=list(pairs.values()), others=others)


def _cell(cells: Sequence[Cell], result: ForeignResult, config: str) -> tuple[Cell | None, str]:
    only = len({cell.model.name for cell in cells}) == 1 and not result.model
    of_model = [cell for cell in cells if only or _is_model(cell, result.model)]
    if not of_model:
        return None, f"the campaign has no model {result.model!r}"
    config_name = result.config or config
    of_config = [cell for cell in of_model if cell.config.name == config_name]
    if not of_config:
        return None, f"the campaign has no config {config_name!r}"
    of_task = [cell for cell in of_config if _is_task(cell.workload, result)]
    if not of_task:
        task = " ".join(filter(None, (result.benchmark, result.subset)))
        return None, f"the campaign has no benchmark of {task}"
    shots, expected = result.settings.get("num_fewshot"), _shots(of_task[0])
    of_task = [cell for cell in of_task if shots is None or _shots(cell) in (None, shots)]
    if not of_task:
        return None, f"it has {shots} few-shot examples, and the cell has num_fewshot {expected}"
    temperature, expected = _their_temperature(result), _temperature(of_task[0])
    if temperature is not None:
        of_task = [cell for cell in of_task if _temperature(cell) in (None, temperature)]
    if not of_task:
        why = f"it has temperature {temperature:g}, and the cell has temperature {expected:g}"
        return None, why
    of_task.sort(key=lambda cell: _shots(cell) is None)  # one that says it is the likelier one
    answers = of_task[0].workload.samples_per_question
    of_task = [c for c in of_task if c.workload.samples_per_question == result.samples_per_question]
    if not of_task:
        count = f"it has {counted(result.samples_per_question, 'answer')} to each question"
        return None, f"{count}, and the cell has samples_per_question {answers}"
    for cell in of_task:
        limit = cell.workload.limit
        if limit == result.limit or (result.limit is None and limit == result.answered):
            return cell, ""
    count = "all" if result.limit is None else str(result.limit)
    return None, f"it has {count} samples, and the cell has limit {of_task[0].workload.limit}"


def _shots(cell: Cell) -> Any:
    return cell.workload.params.get("num_fewshot")


def _temperature(cell: Cell) -> float | None:
    """What the cell names; None where its task says it, or nothing."""
    value = cell.workload.generation.get("temperature")
    return None if value is None else float(value)


def _their_temperature(result: ForeignResult) -> float | None:
    """What lm-eval drew the texts at; None where it leaves that to the kind of model."""
    settings = result.settings.get("generation_kwargs")
    if not isinstance(settings, Mapping) or not result.harness.startswith("lm-eval"):
        return None
    samples, value = settings.get("do_sample"), settings.get("temperature")
    if not isinstance(value, (int, float)) or value <= 0:
        return None if samples or value else 0.0
    return None if samples is False else float(value)


def _is_model(cell: Cell, name: str) -> bool:
    source = cell.model.source.partition("@")[0]
    names = {cell.model.name, cell.model.source, source, Path(source).name}
    same_folder = Path(name).resolve() == Path(source).resolve()  # a relative path, as it was typed
    return name in names or name in map(_folder_name, names) or same_folder


def _folder_name(name: str) -> str:
    """How sparse-attention-hub writes a model's name."""
    for character in r'\/:*?"<>|':
        name = name.replace(character, "_")
    while "__" in name:
        name = name.replace("__", "_")
    return name.strip("_")


def _is_task(workload: Workload, result: ForeignResult) -> bool:
    if result.load:
        return workload.benchmark == result.benchmark and _load_of(workload) == dict(result.load)
    if workload.benchmark == "inspect":  # its task is FILE@TASK or PACKAGE/TASK
        task = str(workload.params["task"]).replace("@", "/").rpartition("/")[2]
        return result.harness.startswith("inspect_ai") and task == result.benchmark
    named = workload.benchmark == result.benchmark and workload.subset == result.subset
    called = workload.called == result.benchmark and workload.subset == result.subset
    if result.subset is None and result.benchmark in (workload.full_name, workload.label):
        return True
    return named or called or (result.subset is None and _task(workload) == result.benchmark)


def _load_of(workload: Workload) -> dict[str, Any]:
    """The load that a serving cell asks for."""
    load = Settings.of(workload.params).load
    if load.rate is None:
        return {"concurrency": load.concurrency}
    return {"rate": load.rate, "arrivals": load.arrivals}


def _task(workload: Workload) -> str:
    """The one task of its harness that a cell asks; ``""`` for several, and for none."""
    benchmark = benchmark_class(workload.benchmark)({**workload.params, **workload.outside})
    tasks = benchmark.harness_tasks(workload.subset)
    return tasks[0] if len(tasks) == 1 else ""
