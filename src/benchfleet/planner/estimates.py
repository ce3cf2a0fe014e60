"""How long a cell should take on a machine of which there is a report, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.machines.probe.report import Capability
from benchfleet.runner.scheduler.duration_model import DurationModel

By = Literal["ran there", "ran elsewhere", "speed and size", "speed alone"]

_DEFAULT_SAMPLES = 100  # of a benchmark that does not say how many it has
_DEFAULT_PROMPT_TOKENS, _DEFAULT_ANSWER_TOKENS = 512, 64  # tokens, where nothing says how many
_DEFAULT_CELL_S = 60.0  # of a cell of which nothing is known, on a machine in the middle
_LOADER_START_S = 5.0  # seconds that a loader takes besides reading
_DEFAULT_DISK_BYTES_S = 200e6  # bytes a second, where it was not measured
_DEFAULT_GFLOPS = 10.0  # GFLOP/s, the same
_DEFAULT_COPY_BYTES_S = 5e9  # bytes a second, the same


@dataclass(frozen=True, kw_only=True)
class Time:
    """Seconds of one cell once its model is loaded."""

    seconds: float
    by: By


class Estimates:
    """Times of what ran before on the same machine, else scaled by measured speed."""

    def __init__(
        self, machines: Sequence[Capability], records: Iterable[tuple[Cell, CellRecord]]
    ) -> None:
        self._machines = {machine.hostname: machine for machine in machines}
        self._all = DurationModel()
        self._by_host: dict[str, DurationModel] = {}
        for cell, record in records:
            if record.outcome is not None:
                self._all.learn(cell, record.outcome)
                where = record.outcome.host
                self._by_host.setdefault(where, DurationModel()).learn(cell, record.outcome)
        self._middle = median(map(_speed, machines)) if machines else 1.0

    def of(self, cell: Cell, machine: Capability, *, weights: int, part: float) -> Time:
        """The time of a cell whose model has so many bytes (0: unknown), in a slot that has this
        part of the machine's CPU."""
        own = self._by_host.get(machine.hostname)
        if own and (expected := own.expected(cell)) and expected.like == "same cell":
            return Time(seconds=expected.seconds, by="ran there")
        own_first = sorted(self._by_host.items(), key=lambda item: item[0] != machine.hostname)
        for name, history in own_first:
            other = self._machines.get(name)
            if other and (expected := history.expected(cell)) and expected.like != "another model":
                ratio = _speed(other) / _speed(machine)
                return Time(seconds=expected.seconds * ratio, by="ran elsewhere")
        if (expected := self._all.expected(cell)) and expected.like != "another model":
            return Time(seconds=expected.seconds, by="ran elsewhere")
        share = 1.0 if machine.gpus else part
        if weights:
            seconds = _by_size(cell, machine, weights) / share
            return Time(seconds=seconds, by="speed and size")
        return Time(seconds=_DEFAULT_CELL_S * self._middle / _speed(machine), by="speed alone")

    def load(self, model: str, machine: Capability, *, weights: int) -> float:
        """Seconds until a slot has the model that lies on the machine."""
        own = self._by_host.get(machine.hostname)
        if own and (seconds := own.load(model)):
            return seconds
        if not weights:
            return self._all.load(model)
        return _LOADER_START_S + weights / (machine.number("disk_read") or _DEFAULT_DISK_BYTES_S)


def _speed(machine: Capability) -> float:
    """GFLOP/s of what computes there; a product by plain Python says nothing of it."""
    if machine.gpus:
        return machine.number("gpu_gflops") or 50_000.0
    measured = machine.number("gflops") if machine.gflops_by != "python" else 0.0
    return measured or _DEFAULT_GFLOPS * machine.number("cores") / 4


def _by_size(cell: Cell, machine: Capability, weights: int) -> float:
    """Reading the prompts is computing, two operations for each parameter (of two bytes) and token;
    each token of an answer reads the weights once."""
    work = cell.workload
    samples = work.declared_samples or _DEFAULT_SAMPLES
    answer = _whole(work.generation.get("max_new_tokens"), _DEFAULT_ANSWER_TOKENS)
    bandwidth = machine.number("memory_bandwidth") or _DEFAULT_COPY_BYTES_S
    if machine.gpus:
        bandwidth = machine.gpu_bandwidth or 100 * bandwidth
    reading = weights * _DEFAULT_PROMPT_TOKENS / (_speed(machine) * 1e9)
    writing = weights * answer / bandwidth / max(1, work.batch_size)
    return samples * (reading + writing)


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and value > 0 else otherwise
