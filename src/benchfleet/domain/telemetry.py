"""What was measured while a cell ran, and what that comes to: means, peaks and energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .resource import CPU, MemoryState

READING_INTERVAL_S = 1.0  # seconds between readings
_MAX_READING_GAP_S = 3 * READING_INTERVAL_S  # seconds between two readings of power at most
# seconds; over less the CPU's clock is too coarse for a peak
_CPU_WINDOW_S = READING_INTERVAL_S / 2


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """A GPU of the slot at one moment; None is what it, or its driver, does not tell."""

    index: int
    memory: int | None = None  # bytes that everybody holds on it
    total: int | None = None  # bytes
    own: int | None = None  # bytes that the slot and all it started hold
    utilisation: float | None = None  # %
    power: float | None = None  # W, of the whole GPU
    temperature: float | None = None  # °C
    others: bool = False  # somebody else computes on it


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A slot with all that it started, at one moment."""

    at: float  # seconds since the first reading of its attempt
    cpu: float | None = None  # seconds of CPU time since then; None: unknown, as the next
    ram: int | None = None  # bytes that cannot be read from a file again
    total: int | None = None  # bytes of RAM of its machine; set, as the next, on request
    free: int | None = None  # of them
    busy: float | None = None  # part of the time that the machine's CPU computes
    gpus: tuple[GpuReading, ...] = ()

    def room(self) -> dict[str, MemoryState]:
        """The memory of its machine's CPU under `CPU`, and of each GPU under ``gpu:0``."""
        memories: dict[str, MemoryState] = {}
        if self.total is not None and self.free is not None:
            memories[CPU] = MemoryState(total=self.total, free=self.free, busy=self.busy)
        for gpu in self.gpus:
            if gpu.total is not None and gpu.memory is not None:
                busy = None if gpu.utilisation is None else gpu.utilisation / 100
                free = max(0, gpu.total - gpu.memory)
                memories[f"gpu:{gpu.index}"] = MemoryState(total=gpu.total, free=free, busy=busy)
        return memories

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; unknown values are left out."""
        return {**_reported_fields(self), "gpus": [_reported_fields(gpu) for gpu in self.gpus]}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Reading:
        """The reading that plain values say. Raises ValueError, TypeError or KeyError."""
        gpus = tuple(GpuReading(**_checked(GpuReading, gpu)) for gpu in value["gpus"])
        return cls(**{**_checked(cls, {**value, "gpus": None}), "gpus": gpus})


def _reported_fields(reading: Reading | GpuReading) -> dict[str, Any]:
    fields = ((name, getattr(reading, name)) for name in reading.__dataclass_fields__)
    return {name: value for name, value in fields if value is not None and value is not False}


def _checked(kind: type[Reading | GpuReading], value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `value`, every number of which is finite and not negative."""
    for name, number in value.items():
        measure = type(number) in (int, float) and 0 <= number < 1e18
        good = measure or number is None or type(number) is bool
        if name not in kind.__dataclass_fields__ or not good:
            raise ValueError(f"invalid measurement {name} {number!r:.60}")
    return dict(value)


class _Track:
    """Mean and peak of one quantity, as its values come."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._area = self._seconds = 0.0
        self._last: tuple[float, float] | None = None

    def add(self, at: float, value: float) -> None:
        if self._last is not None:
            before, was = self._last
            self._area += (at - before) * (was + value) / 2
            self._seconds += at - before
        self._last, self.peak = (at, value), max(self.peak, value)

    def summary(self) -> dict[str, float]:
        mean = self._area / self._seconds if self._seconds else self.peak
        return {"mean": round(mean, 3), "peak": round(self.peak, 3)}


class Telemetry:
    """The readings of one attempt, summed up as they come; times may only grow."""

    def __init__(self) -> None:
        self.last: Reading | None = None
        self.warnings: list[str] = []
        self._readings, self._peak_cpu = 0, 0.0
        self._near: tuple[float, float] | None = None  # when the CPU's time was taken, and the time
        self._ram = _Track()
        self._gpus: dict[int, dict[str, _Track]] = {}
        self._totals: dict[int, int] = {}
        self._joules = self._whole = 0.0
        self._shared, self._others = 0, False
        self._doubt = ""  # why the energy is not known

    def add(self, reading: Reading, *, beside: int = 0) -> None:
        """Take in a reading; `beside`: so many other slots of the run computed on its GPUs."""
        last, self.last = self.last, reading
        self._readings += 1
        self._shared = max(self._shared, beside)
        if reading.ram is not None:
            self._ram.add(reading.at, reading.ram)
        if reading.cpu is not None:
            at, cpu = self._near or (reading.at, reading.cpu)
            if self._near is None or reading.at - at >= _CPU_WINDOW_S:
                self._near = reading.at, reading.cpu
                self._peak_cpu = max(self._peak_cpu, _over(reading.cpu - cpu, reading.at - at))
        for gpu in reading.gpus:
            tracks = self._gpus.setdefault(gpu.index, {})
            self._others = self._others or gpu.others
            if gpu.total is not None:
                self._totals[gpu.index] = gpu.total
            for name in ("memory", "own", "utilisation", "power", "temperature"):
                if (value := getattr(gpu, name)) is not None:
                    tracks.setdefault(name, _Track()).add(reading.at, value)
        if reading.gpus:
            self._meter(last, reading, 1 + beside)

    def _meter(self, last: Reading | None, reading: Reading, slots: int) -> None:
        """Energy by trapezoid; a slot that shares a GPU bears its part of it."""
        silent = [gpu.index for gpu in reading.gpus if gpu.power is None]
        gap = reading.at - last.at if last else 0.0
        if silent and not self._doubt:
            self._doubt = f"gpu:{silent[0]} did not report its power at {reading.at:.1f} s"
        elif gap > _MAX_READING_GAP_S and not self._doubt:
            since = reading.at - gap
            most = f"{_MAX_READING_GAP_S:g} s are the most"
            self._doubt = f"no reading for {gap:.1f} s at {since:.1f} s; {most}"
        before = {gpu.index: gpu.power for gpu in last.gpus} if last else {}
        for gpu in reading.gpus:
            if gpu.power is not None and (was := before.get(gpu.index)) is not None:
                joules = gap * (was + gpu.power) / 2
                self._whole += joules
                self._joules += joules / slots

    @property
    def joules(self) -> float | None:
        """Its part of the energy of its GPUs; None where it has none, or that is not known."""
        is_known = self._gpus and self._readings > 1 and not self._doubt
        return round(self._joules, 3) if is_known else None

    @property
    def ram(self) -> int:
        """Bytes at most; 0: unknown."""
        return int(self._ram.peak)

    @property
    def gpu_memory(self) -> int:
        """Bytes at most on one of its GPUs, of its own if reported; 0: unknown."""
        peaks = [tracks.get("own") or tracks.get("memory") for tracks in self._gpus.values()]
        return max((int(track.peak) for track in peaks if track), default=0)

    def summary(self) -> dict[str, Any]:
        """JSON values only; unknown values are left out. Empty without a reading."""
        if self.last is None:
            return {}
        summary: dict[str, Any] = {
            "readings": self._readings,
            "seconds": round(self.last.at, 3),
            "every": READING_INTERVAL_S,
        }
        if self.last.cpu is not None:
            mean = _over(self.last.cpu, self.last.at)
            summary["cpu_cores"] = {
                "mean": round(mean, 3),
                "peak": round(max(mean, self._peak_cpu), 3),
                "seconds": round(self.last.cpu, 3),
            }
        if self.last.ram is not None:
            summary["ram_bytes"] = self._ram.summary()
        if self._gpus:
            summary["gpus"] = [
                {
                    "index": index,
                    **({"total_bytes": total} if (total := self._totals.get(index)) else {}),
                    **{_NAMES[name]: track.summary() for name, track in tracks.items()},
                }
                for index, tracks in sorted(self._gpus.items())
            ]
            summary["energy"] = self._energy()
        if self.warnings:
            summary["warnings"] = list(self.warnings)
        return summary

    def _energy(self) -> dict[str, Any]:
        reason = self._doubt or ("" if self._readings > 1 else "there is one reading alone")
        energy: dict[str, Any] = {"valid": not reason, "reason": reason, "joules": self.joules}
        notes = []
        if self._shared:
            slots = "another slot" if self._shared == 1 else f"up to {self._shared} other slots"
            notes.append(f"{slots} of this run computed on the same GPU; each bears its part")
            energy["gpu_joules"] = None if reason else round(self._whole, 3)
        elif self._others:
            notes.append("processes that are not this run's computed on the same GPU meanwhile")
        if notes:
            energy["shared"] = "; ".join(notes)
        return energy


_NAMES = {
    "memory": "memory_bytes",
    "own": "own_memory_bytes",
    "utilisation": "utilisation_percent",
    "power": "power_watts",
    "temperature": "temperature_celsius",
}


def _over(above: float, below: float) -> float:
    return max(0.0, above) / below if below > 0 else 0.0
