from .campaign.load import load_campaign
from .domain.definition import PhaseDefinition, RunnerConfig
from .errors import BenchfleetError, CampaignError
from .executor import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkExecutor,
    BenchmarkFailure,
    BenchmarkResult,
    BenchmarkStub,
    ExecutionProgress,
    ExecutionResults,
)

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
    "RunnerConfig",
    "load_campaign",
]
