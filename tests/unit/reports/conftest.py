"""A small campaign built cell by cell, with its ledger records and sample scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.failure import Failure
from benchfleet.reports.tables import Comparison, Entry, compare
from benchfleet.results.read import SampleScores
from records import record_of

Present = TypeVar("Present")


def _model(name: str, step: int | None) -> Model:
    """A model, or a checkpoint of the series with that name."""
    series, name = (name, f"{name}-{step}") if step else ("", name)
    return Model(name=name, adapter="mock", source=name, digest=name, series=series, step=step)


@dataclass
class Study:
    """Cells in the order in which they are added."""

    cells: list[Cell] = field(default_factory=list)
    records: list[CellRecord] = field(default_factory=list)
    samples: dict[str, dict[str, float]] = field(default_factory=dict)

    def cell(
        self,
        config: str = "dense",
        *,
        model: str = "tiny",
        subset: str = "512",
        repeat: int = 0,
        mode: str = "measure",
        step: int | None = None,
        **workload: Any,
    ) -> Cell:
        steps = () if config == "dense" else (AttentionStep(name=config),)
        cell = Cell(
            model=_model(model, step),
            config=Config(name=config, attention=steps, mode=mode),
            workload=Workload(benchmark="recall", version="1", subset=subset, **workload),
            repeat=repeat,
            repeats=True,
        )
        self.cells.append(cell)
        return cell

    def record(self, cell: Cell, state: str, outcome: Outcome | None = None) -> None:
        self.records.append(record_of(cell, state=state, outcome=outcome))

    def done(
        self,
        config: str,
        values: Sequence[float],
        *,
        headline: float | None = None,
        host: str = "",
        device: str = "",
        metrics: Mapping[str, float] = {},
        reported: Mapping[str, Any] = {},
        same: bool = False,
        **place: Any,
    ) -> None:
        """A successful cell whose samples are named by repeat and position, or, where repeats ask
        the `same` again, by position; `headline` replaces them where it is given with no values."""
        cell = self.cell(config, **place)
        data = 0 if same else cell.repeat
        self.samples[cell.fingerprint] = {f"{data}-{n}": float(v) for n, v in enumerate(values)}
        overall = sum(values) / len(values) if headline is None else headline
        found = {"overall_score": overall, "samples": len(values), **metrics}
        seconds = {"load": 1.0, "benchmark": 4.0}
        outcome = Outcome(
            state="success",
            metrics=found,
            reported=reported,
            seconds=seconds,
            host=host,
            device=device,
        )
        self.record(cell, "success", outcome)

    def failed(
        self,
        config: str,
        *,
        state: Any = "failed",
        stage: Any = "load",
        kind: Any = "oom",
        message: str = "",
        **place: Any,
    ) -> Cell:
        """A cell without a result; its state, stage and kind may be unknown ones."""
        cell = self.cell(config, **place)
        failure = Failure(stage=stage, kind=kind, message=message)
        self.record(cell, state, Outcome(state=state, failure=failure, seconds={"load": 2.0}))
        return cell

    def compared(self, baseline: str | None = None) -> Comparison:
        return compare(
            self.records,
            self.cells,
            lambda record: SampleScores(scores=self.samples[record.fingerprint]),
            baseline,
        )


def present(value: Present | None) -> Present:
    """The value, which must be there."""
    assert value is not None
    return value


def only(comparison: Comparison) -> Entry:
    """The one entry of a comparison."""
    (entry,) = comparison.entries
    return entry


@pytest.fixture
def study() -> Study:
    return Study()


@pytest.fixture
def demo(study: Study) -> Study:
    """One model × five configs × three lengths × two repeats: dense and top-k win."""
    right = {"dense": 100, "window_32": 15, "window_128": 35, "window_256": 55, "top_k": 99}
    for repeat in (0, 1):
        for subset in ("128", "512", "1024"):
            for config, of_a_hundred in right.items():
                values = [n * 37 % 100 < of_a_hundred for n in range(100)]
                study.done(
                    config,
                    [float(value) for value in values],
                    model="tiny-recall",
                    subset=subset,
                    repeat=repeat,
                    metrics={"density": 0.25, "completion_tokens": 100, "seconds": 2.0},
                )
    return study
