"""From cells and their records to what a call shows while it runs and gives back in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_metrics
from benchfleet.runner.progress import Notice, Progress

from .arguments import Arguments
from .values import BenchmarkFailure, BenchmarkResult, BenchmarkStub, ExecutionProgress

ProgressCallback = Callable[[ExecutionProgress], object]


class ProgressReporter:
    """Tells a caller how far a run is, and keeps what the runner warned of, by cell."""

    def __init__(self, tell: ProgressCallback | None, now: Callable[[], float]) -> None:
        self._tell, self._now = tell, now
        self.warnings: dict[str, str] = {}

    def __call__(self, notice: Notice, progress: Progress) -> None:
        if notice.kind == "warning" and notice.cell:
            self.warnings[notice.cell] = notice.message
        if self._tell is not None:
            self._tell(snapshot(progress, self._now()))


def snapshot(progress: Progress, now: float) -> ExecutionProgress:
    """The runner's counts in the words of the earlier tool."""
    success = progress.states.get("success", 0)
    running: dict[int, list[str]] = {}
    for slot in progress.slots.values():
        if slot.cell:
            state = f"{slot.done}/{slot.total}" if slot.total else slot.stage
            for index in slot.devices.partition(":")[2].split("+"):
                running.setdefault(int(index), []).append(f"{slot.cell} {state}")
    return ExecutionProgress(
        total_stubs=progress.total,
        skipped_stubs=progress.reused,
        completed_stubs=success - progress.reused,
        failed_stubs=progress.ended - success,
        current_executions={index: ", ".join(cells) for index, cells in sorted(running.items())},
        seconds_left=progress.seconds_left(now),
    )


def stub(
    cell: Cell, record: CellRecord, call: Arguments, adapter_config: Any, layout: Layout
) -> BenchmarkStub:
    """The cell as its caller described it."""
    return BenchmarkStub(
        model_name=call.models.get(cell.model.name, cell.model.name),  # a variant: by its own
        sparse_config_name=cell.config.name,
        sparse_attention_config=call.configs[cell.config.name],
        benchmark_name=cell.workload.name,
        subset=cell.workload.subset,
        adapter_config=adapter_config,
        generation_kwargs=dict(cell.workload.generation),
        result_dir=str(layout.published(record.path)),
        repeat=cell.repeat,
    )


def result(
    described: BenchmarkStub, record: CellRecord, layout: Layout, *, reused: bool
) -> BenchmarkResult:
    """A success with its published metrics. Raises ResultsError where they are not there, or are
    not those that the ledger has."""
    outcome = record.outcome
    metrics = published_metrics(layout, record.path, outcome.digest if outcome else "")
    return BenchmarkResult(
        stub=described,
        metrics=metrics,
        execution_time=sum(outcome.seconds.values()) if outcome else 0.0,
        reused=reused,
        host=outcome.host if outcome else "",
        device=outcome.device if outcome else "",
    )


def failure(described: BenchmarkStub, record: CellRecord, why: str) -> BenchmarkFailure:
    """A cell without a result; `why` is the reason if no attempt has one."""
    outcome = record.outcome
    reason = outcome.reason if outcome and record.state in ("failed", "partial") else None
    return BenchmarkFailure(
        stub=described,
        state=record.state,
        stage=reason.stage if reason else "collect" if record.state == "success" else "provision",
        error_type=reason.kind
        if reason
        else "bad_result"
        if record.state == "success"
        else "error",
        error_message=reason.message if reason else why or f"the cell is {record.state}",
        execution_time=sum(outcome.seconds.values()) if outcome else 0.0,
        attempts=record.attempt,
        traceback=reason.trace if reason else "",
        log_tail=reason.log_tail if reason else "",
    )
