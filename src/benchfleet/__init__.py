"""Runs a matrix of LLM benchmarks on whatever machines you have, and never a cell twice."""

__version__ = "0.1.0"

# Fetched from where they live when they are first asked for, so that importing benchfleet stays
# light; `__init__.pyi` says the same to type checkers.
_HOMES = {
    "AdapterConfig": "compat.executor",
    "BenchfleetError": "errors",
    "BenchmarkConfig": "compat.executor",
    "BenchmarkExecutor": "compat.executor",
    "BenchmarkFailure": "compat.executor",
    "BenchmarkResult": "compat.executor",
    "BenchmarkStub": "compat.executor",
    "CampaignError": "errors",
    "ExecutionProgress": "compat.executor",
    "ExecutionResults": "compat.executor",
    "PhaseDefinition": "domain.phase_definition",
    "Results": "frames",
    "RunnerConfig": "domain.phase_definition",
    "load": "frames",
    "load_campaign": "campaign.load",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
