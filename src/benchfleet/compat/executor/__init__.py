"""The library's front door: a matrix of benchmarks as one call, in the earlier tool's words."""

from .executor import BenchmarkExecutor
from .values import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkFailure,
    BenchmarkResult,
    BenchmarkStub,
    ExecutionProgress,
    ExecutionResults,
)

__all__ = [
    "AdapterConfig",
    "BenchmarkConfig",
    "BenchmarkExecutor",
    "BenchmarkFailure",
    "BenchmarkResult",
    "BenchmarkStub",
    "ExecutionProgress",
    "ExecutionResults",
]
