"""What a run would be like: the memory that each cell takes, and how many fit at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.campaign.base import Campaign
from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.cell import Cell, Model, Workload
from benchfleet.domain.humanize import gigabytes
from benchfleet.domain.resource import DeviceKind
from benchfleet.machines.memory import Checkpoint, Estimate, read_checkpoint
from benchfleet.machines.probe.recommend import largest_memory, sizes_that_fit
from benchfleet.machines.probe.report import facts_of
from benchfleet.models.base import adapter_class
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.scheduler.duration_model import Expected

SPECIAL_TOKENS = 16  # tokens that a template or a tokenizer adds to a prompt


class MemoryForecast:
    """Estimates by cell; each checkpoint's headers are read once."""

    def __init__(self, device: DeviceKind) -> None:
        self._device = device
        self._checkpoints: dict[str, Checkpoint | str] = {}
        self._estimates: dict[tuple[str, str], Estimate | str] = {}

    def of(self, cell: Cell) -> Estimate | str:
        """The estimate, or why there is none."""
        key = (cell.model.load_key, canonical_json(cell.workload.identity()))
        if key not in self._estimates:
            self._estimates[key] = self._estimate(cell.model, cell.workload)
        return self._estimates[key]

    def _estimate(self, model: Model, workload: Workload) -> Estimate | str:
        if not benchmark_class(workload.benchmark).needs_model:
            return f"{workload.name} runs without the adapter's model"
        checkpoint = self._checkpoint(model)
        if isinstance(checkpoint, str):
            return checkpoint
        try:
            return checkpoint.estimate(
                device=self._device,
                model_kwargs=model.kwargs,
                batch=max(1, workload.batch_size),
                length=_max_tokens(workload),
            )
        except ValueError as error:
            return str(error)

    def _checkpoint(self, model: Model) -> Checkpoint | str:
        if model.load_key not in self._checkpoints:
            self._checkpoints[model.load_key] = _read_checkpoint_of(model)
        return self._checkpoints[model.load_key]


def _read_checkpoint_of(model: Model) -> Checkpoint | str:
    try:
        folder = adapter_class(model.adapter).checkpoint(model.source)
        if folder is None:
            return f"the {model.adapter} adapter opens no checkpoint of its own"
        return read_checkpoint(folder)
    except (ValueError, OSError) as error:
        return str(error)


def _max_tokens(workload: Workload) -> int | None:
    """Tokens of prompt and answer at most: a character is seldom more than one token."""
    benchmark = benchmark_class(workload.benchmark)({**workload.params, **workload.outside})
    longest = benchmark.longest_prompt(workload.subset)
    answer = workload.generation.get("max_new_tokens")
    if longest is None or not isinstance(answer, int):
        return None
    return longest + answer + SPECIAL_TOKENS


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How many cells fit at once, and what to beware of."""

    slots: int  # the suggested max_concurrent_runs
    why: str
    warnings: tuple[str, ...] = ()


def fit(pool: Pool, demands: Sequence[tuple[Cell, int | None]], *, ram: int, cores: int) -> Fit:
    """The concurrency that suits the cells left to run, each with the bytes that it takes on a
    device (None: unknown); `ram` is what the machine can still give. Cells that ask servers
    elsewhere take none of it."""
    demands = [(cell, size) for cell, size in demands if not cell.need.endpoint]
    if not demands:
        return Fit(slots=pool.slots, why="no cell is left that takes a slot")
    largest = max((size for _, size in demands if size is not None), default=0)
    on_gpus = pool.devices[0].kind == "gpu"
    rooms = [device.memory for device in pool.devices] if on_gpus else [ram]
    bounds = {"the cells left to run": len(demands)}
    if not largest or not all(rooms):
        bounds["the devices; what a cell takes of memory is unknown"] = len(pool.devices)
    else:
        whole = any(cell.need.gpus > 1 for cell, _ in demands)  # such a cell shares no GPU
        if on_gpus:
            bounds["the cores of the CPU"] = cores
        else:
            bounds["the CPU slots"] = pool.slots
        bounds["memory"] = sum(
            min(1, room // largest) if whole else room // largest for room in rooms
        )
    bound = min(bounds, key=lambda name: bounds[name])
    where = "on a GPU" if on_gpus else "of memory free"
    return Fit(
        slots=max(1, bounds[bound]),
        why=f"bounded by {bound}",
        warnings=_memory_warnings(
            min(rooms), largest, pool.slots_per_device if on_gpus else pool.slots, where
        ),
    )


def _memory_warnings(room: int, largest: int, slots: int, where: str) -> tuple[str, ...]:
    """What to say where `asked` cells at a time take more than there is, or one alone does."""
    together = min(slots, 1 if largest > room else slots)
    if not room or together * largest <= room:
        return ()
    cells = "one cell" if together == 1 else f"{together} cells at a time"
    return (
        f"memory is short: {cells} may take {gigabytes(together * largest)}, and there are"
        f" {gigabytes(room)} {where}",
    )


def wall_time(expected: Sequence[Expected], loads: Iterable[float], slots: int) -> float:
    """Seconds for cells spread evenly over the slots, each of which loads each model once."""
    seconds = [one.seconds for one in expected]
    return max(sum(seconds) / slots, max(seconds, default=0.0)) + sum(loads)


def recommended(
    results: Mapping[str, Any], campaign: Campaign | None, *, hostname: str
) -> list[str]:
    """The campaign's models whose every cell fits here and is allowed by the rules; without a
    campaign, sizes that fit."""
    vrams = [gpu["memory"] for gpu in results["gpu"]["devices"] if gpu["health"] == "good"]
    memory, on_gpu = largest_memory(results["memory"]["available"], vrams)
    if campaign is None:
        return sizes_that_fit(memory, on_gpu=on_gpu)
    forecast = MemoryForecast("gpu" if on_gpu else "cpu")
    facts = facts_of(results, hostname)
    fits: dict[str, bool] = {}
    for cell in campaign.matrix.expand():
        estimate = forecast.of(cell)
        needed = cell.need.vram or (estimate.total if isinstance(estimate, Estimate) else 0)
        barred = campaign.eligibility.barred(
            facts,
            phase=cell.phase,
            model=cell.model.name,
            variant=cell.model.name in campaign.variants,
        )
        enough = not barred and memory >= needed and len(vrams) >= cell.need.gpus
        fits[cell.model.name] = fits.get(cell.model.name, True) and enough
    return [name for name, fitting in fits.items() if fitting]
