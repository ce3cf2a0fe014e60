"""What a run would be like: the memory and the time of each cell, and how many fit at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchfleet import registry
from benchfleet.domain.attempt import Outcome
from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.cell import Cell, Model, Workload
from benchfleet.domain.resource import DeviceKind
from benchfleet.machines.memory import Checkpoint, Estimate, read_checkpoint
from benchfleet.runner.place import Pool

_SPECIAL = 16  # tokens that a template or a tokenizer adds to a prompt
Ended = tuple[Cell, Outcome]
Key = tuple[str, ...]
Likeness = Literal["same config and subset", "same benchmark"]


class MemoryForecast:
    """Estimates by cell; each checkpoint's headers are read once."""

    def __init__(self, device: DeviceKind) -> None:
        self._device = device
        self._checkpoints: dict[str, Checkpoint | str] = {}
        self._known: dict[tuple[str, str], Estimate | str] = {}

    def of(self, cell: Cell) -> Estimate | str:
        """The estimate, or why there is none."""
        key = (cell.model.load_key, canonical_json(cell.workload.identity()))
        if key not in self._known:
            self._known[key] = self._estimate(cell.model, cell.workload)
        return self._known[key]

    def _estimate(self, model: Model, workload: Workload) -> Estimate | str:
        if not getattr(registry.load("benchmarks", workload.benchmark), "needs_model", True):
            return f"{workload.name} runs without the adapter's model"
        checkpoint = self._checkpoint(model)
        if isinstance(checkpoint, str):
            return checkpoint
        try:
            return checkpoint.estimate(
                device=self._device,
                model_kwargs=model.model_kwargs,
                batch=workload.batch_size,
                length=_length(workload),
            )
        except ValueError as error:
            return str(error)

    def _checkpoint(self, model: Model) -> Checkpoint | str:
        if model.load_key not in self._checkpoints:
            self._checkpoints[model.load_key] = _opened(model)
        return self._checkpoints[model.load_key]


def _opened(model: Model) -> Checkpoint | str:
    folder = getattr(registry.load("models", model.adapter), "folder", None)
    if folder is None:
        return f"the {model.adapter} adapter opens no checkpoint of its own"
    try:
        return read_checkpoint(folder(model.source))
    except (ValueError, OSError) as error:
        return str(error)


def _length(workload: Workload) -> int | None:
    """Tokens of prompt and answer at most: a character is seldom more than one token."""
    made = registry.load("benchmarks", workload.benchmark)
    benchmark = made({**workload.params, **workload.outside})
    longest = getattr(benchmark, "longest_prompt", None)
    answer = workload.generation.get("max_new_tokens")
    if longest is None or not isinstance(answer, int):
        return None
    return int(longest(workload.subset)) + answer + _SPECIAL


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How long a cell should take once its model is loaded, and by what that is known."""

    seconds: float
    like: Likeness  # what those cells have in common with it, beside the model
    cells: int  # how many of them


class TimeForecast:
    """Times by cell, from those that ended well."""

    def __init__(self, ended: Iterable[Ended]) -> None:
        self._same: dict[Key, list[float]] = {}
        self._like: dict[Key, dict[int | None, list[float]]] = {}  # by the limit of samples
        self._loads: dict[str, list[float]] = {}
        self._known: dict[Key, Expected | None] = {}
        for cell, outcome in ended:
            if load := outcome.seconds.get("load"):
                self._loads.setdefault(cell.model.name, []).append(load)
            if (seconds := outcome.seconds.get("benchmark")) is not None:
                self._same.setdefault(_same(cell), []).append(seconds)
                by_limit = self._like.setdefault(_like(cell), {})
                by_limit.setdefault(cell.workload.limit, []).append(seconds)

    def of(self, cell: Cell) -> Expected | None:
        """By the same config and subset, else by any of the same model and benchmark."""
        key = _same(cell)
        if key not in self._known:
            self._known[key] = self._found(cell)
        return self._known[key]

    def load(self, model: str) -> float:
        """How long the model takes to load; 0 where nobody knows."""
        return median(self._loads.get(model, [0.0]))

    def _found(self, cell: Cell) -> Expected | None:
        if same := self._same.get(_same(cell)):
            return Expected(seconds=median(same), like="same config and subset", cells=len(same))
        like = [
            one * factor
            for limit, seconds in self._like.get(_like(cell), {}).items()
            if (factor := _scale(limit, cell.workload.limit)) is not None
            for one in seconds
        ]
        if like:
            return Expected(seconds=median(like), like="same benchmark", cells=len(like))
        return None


def _same(cell: Cell) -> Key:
    work = cell.workload
    params = canonical_json(dict(work.params))
    return (cell.model.name, cell.config.name, work.label, str(work.batch_size), params)


def _like(cell: Cell) -> Key:
    params = canonical_json(dict(cell.workload.params))
    return (cell.model.name, cell.workload.name, params)


def _scale(limit: int | None, wanted: int | None) -> float | None:
    """What another sample limit makes of a time; None where one of them is no limit."""
    if limit == wanted:
        return 1.0
    return wanted / limit if limit and wanted else None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How many cells fit at once, and what to beware of."""

    slots: int  # the suggested max_concurrent_runs
    why: str
    warnings: tuple[str, ...] = ()


def fit(pool: Pool, demands: Sequence[tuple[Cell, int | None]], *, ram: int, cores: int) -> Fit:
    """The concurrency that suits the cells left to run, each with the bytes that it takes on a
    device (None: unknown); `ram` is what the machine can still give."""
    if not demands:
        return Fit(slots=pool.slots, why="nothing is left to run")
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
    place = "on a GPU" if on_gpus else "of memory free"
    return Fit(
        slots=max(1, bounds[bound]),
        why=f"bounded by {bound}",
        warnings=_short(min(rooms), largest, pool.seats if on_gpus else pool.slots, place),
    )


def _short(room: int, largest: int, asked: int, place: str) -> tuple[str, ...]:
    """What to say where `asked` cells at a time take more than there is, or one alone does."""
    together = min(asked, 1 if largest > room else asked)
    if not room or together * largest <= room:
        return ()
    cells = "one cell" if together == 1 else f"{together} cells at a time"
    return (
        f"memory is short: {cells} may take {gigabytes(together * largest)}, and there are"
        f" {gigabytes(room)} {place}",
    )


def wall_time(expected: Sequence[Expected], loads: Iterable[float], slots: int) -> float:
    """Seconds for cells spread evenly over the slots, each of which loads each model once."""
    seconds = [one.seconds for one in expected]
    return max(sum(seconds) / slots, max(seconds, default=0.0)) + sum(loads)


def gigabytes(size: int) -> str:
    """``0.4 GB``, ``31.2 GB``."""
    return f"{size / 1e9:.1f} GB"
