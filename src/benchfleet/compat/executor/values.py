"""The classes that a matrix is described with, and those that its results come in.

Their names and fields are those of the earlier tool. What a caller makes (`BenchmarkConfig`,
`AdapterConfig`) is an ordinary dataclass, so that it can be derived from; anything with the same
attributes does as well. What a caller gets is frozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class BenchmarkConfig:
    """A benchmark and the subsets of it to run, each a cell of its own; None runs it whole."""

    benchmark_name: str
    subsets: Sequence[str | int] | None = None
    settings: Mapping[str, Any] | None = None  # its parameters, limit, batch_size, generation


@dataclass
class AdapterConfig:
    """How every model is opened; attention configs are an axis of the matrix instead."""

    adapter_name: str = "huggingface"  # the earlier tool's name for "transformers"
    model_kwargs: Mapping[str, Any] | None = None
    tokenizer_kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class BenchmarkStub:
    """One cell in the words of the earlier tool: model × sparse config × benchmark × subset."""

    model_name: str  # as the caller named it
    sparse_config_name: str
    sparse_attention_config: Any  # as the caller gave it; None for dense
    benchmark_name: str
    subset: str | None  # None for the whole benchmark
    adapter_config: Any  # as the caller gave it
    generation_kwargs: Mapping[str, Any]  # the benchmark's own with the caller's over them
    result_dir: str  # absolute
    repeat: int = 0  # from 0, where the call repeats its cells


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """A cell that ended well, now or in an earlier call."""

    stub: BenchmarkStub
    metrics: Mapping[str, Any]  # what metrics.json holds: overall_score, task_scores, summary
    execution_time: float  # seconds, loading included
    reused: bool  # found done when the call began
    host: str
    device: str  # gpu:0, cpu:1

    @property
    def success(self) -> bool:
        """Always true, as failures are a class of their own."""
        return True


@dataclass(frozen=True, kw_only=True)
class BenchmarkFailure:
    """A cell without a result, and the first true reason of it."""

    stub: BenchmarkStub
    state: str  # failed, partial (some samples are kept), cancelled, skipped or pending
    stage: str  # provision, setup, load, benchmark or collect
    error_type: str  # oom, timeout, model_not_found, user_error, …
    error_message: str
    execution_time: float = 0.0  # seconds, of the last attempt
    attempts: int = 0
    traceback: str = ""
    log_tail: str = ""  # the last lines of the attempt's log


@dataclass(frozen=True, kw_only=True)
class ExecutionProgress:
    """How far a call is, at one moment."""

    total_stubs: int
    skipped_stubs: int  # found done when the call began
    completed_stubs: int  # ended well since
    failed_stubs: int  # ended in any other way
    current_executions: Mapping[int, str]  # GPU id (or number of the CPU slot) → what runs there
    seconds_left: float | None  # an estimate; None while nobody knows

    @property
    def percent(self) -> float:
        """The share of cells that have ended, from 0 to 100."""
        ended = self.skipped_stubs + self.completed_stubs + self.failed_stubs
        return 100.0 * ended / self.total_stubs if self.total_stubs else 100.0


@dataclass(frozen=True, kw_only=True)
class ExecutionResults:
    """What a call ends with: every cell is in one of the two lists."""

    execution_summary: Mapping[str, Any]  # what execution_summary.json says of this call
    individual_results: list[BenchmarkResult]
    failed_executions: list[BenchmarkFailure]
    execution_time: float  # seconds, of this call

    @property
    def progress(self) -> ExecutionProgress:
        """How far the call was at its end."""
        reused = sum(result.reused for result in self.individual_results)
        return ExecutionProgress(
            total_stubs=len(self.individual_results) + len(self.failed_executions),
            skipped_stubs=reused,
            completed_stubs=len(self.individual_results) - reused,
            failed_stubs=len(self.failed_executions),
            current_executions={},
            seconds_left=0.0,
        )
