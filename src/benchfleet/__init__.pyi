from .campaign.load import load_campaign
from .compat.executor import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    BenchmarkFailure,
    BenchmarkResult,
    BenchmarkStub,
    ExecutionProgress,
    ExecutionResults,
)
from .domain.phase_definition import PhaseDefinition, RunnerConfig
from .errors import BenchfleetError, CampaignError
from .frames import Results, load

__version__: str
__all__ = [
    "AdapterConfig",
    "BenchfleetError",
    "BenchmarkConfig",
    "BenchmarkExecutor",
    "BenchmarkFailure",
    "BenchmarkResult",
    "BenchmarkStub",
    "CampaignError",
    "ExecutionProgress",
    "ExecutionResults",
    "PhaseDefinition",
    "Results",
    "RunnerConfig",
    "load",
    "load_campaign",
]
