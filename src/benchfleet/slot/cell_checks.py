"""Checks a cell against what is here: its benchmark, versions of plugins, its model's server."""

from __future__ import annotations

from benchfleet import registry
from benchfleet.benchmarks.base import Benchmark, benchmark_class
from benchfleet.domain.cell import Cell, Workload
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter


def check_abilities(benchmark: Benchmark, adapter: Adapter, cell: Cell) -> None:
    """Raises CellFailure where the model's server lacks what the benchmark needs."""
    if adapter.abilities is None:
        return
    if missing := [one for one in benchmark.abilities if not adapter.abilities.get(one)]:
        message = (
            f"{cell.workload.name} needs {' and '.join(missing)}, which the server of "
            f"{cell.model.name} does not offer; exclude the pair"
        )
        raise CellFailure(stage="load", kind="user_error", message=message)


def check_version(family: registry.Family, name: str, version: int | str | None) -> None:
    """Raises CellFailure where the plugin here is another than the cell was made for."""
    if why := registry.version_mismatch(family, name, version):
        raise CellFailure(stage="setup", kind="user_error", message=why)


def build_benchmark(work: Workload) -> Benchmark:
    """The benchmark from what the cell says. Raises CellFailure where its local files are not
    those that the campaign was read with."""
    kind = benchmark_class(work.benchmark)
    try:
        benchmark = kind({**work.params, **work.outside})
        digest = benchmark.data_digest(work.subset) if work.data_digest else ""
    except (ValueError, OSError) as error:
        raise CellFailure(stage="setup", kind="user_error", message=str(error)) from error
    if digest != work.data_digest:
        raise CellFailure(
            stage="setup",
            kind="user_error",
            message=_change_message(work, benchmark),
        )
    return benchmark


def _change_message(work: Workload, benchmark: Benchmark) -> str:
    files = [file for file in benchmark.files(work.subset) if file.is_file()]
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    which = f": {newest} was written last" if newest else ""
    return (
        f"{work.name} has changed since the campaign was read{which}; run it again, or name files "
        "that a command writes under its 'outputs'"
    )
