"""Readings of a slot and of its GPUs while it runs a cell."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchfleet.domain.gpu import GpuState
from benchfleet.domain.resource import CPU, MemoryState
from benchfleet.domain.telemetry import READING_INTERVAL_S, GpuReading, Reading
from benchfleet.errors import DeviceError, MissingExtra
from benchfleet.machines.free_memory import free_memory
from benchfleet.machines.nvml import Nvml, open_nvml
from benchfleet.slot import procfs

HUNG_S = 1.0  # a reading that takes longer is not waited for


class Sampler:
    """Takes a reading when an attempt begins, one every second, and one when it ends.

    The thread that takes them lives as long as the slot; a driver that hangs blocks that thread
    only.
    """

    def __init__(
        self,
        hand: Callable[[str, Reading], None],
        measure: Callable[[], Reading] | None = None,
        *,
        every: float = READING_INTERVAL_S,
    ) -> None:
        self._hand, self._measure, self._every = hand, measure or Meter().read, every
        self._lock = threading.Lock()
        self._attempt = ""
        self._first: Reading | None = None  # of the attempt, from which the others count
        self.readings: list[tuple[int, Reading]] = []  # of the attempt, with `perf_counter_ns`
        self._thread: threading.Thread | None = None

    def begin(self, attempt: str) -> None:
        """Take readings for this attempt from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="telemetry", daemon=True)
            self._thread.start()
        with self._locked() as locked:
            if locked:
                self._attempt, self._first, self.readings = attempt, None, []
                self._take(attempt)

    def end(self) -> Reading | None:
        """Take one more reading and no others; None where none can be had."""
        with self._locked() as locked:
            attempt, self._attempt = self._attempt, ""
            return self._take(attempt) if locked and attempt else None

    def again(self) -> Reading:
        """A reading now, handed to nobody."""
        return self._measured() or Reading(at=0.0)

    def _watch(self) -> None:
        while True:
            time.sleep(self._every)
            with self._locked() as locked:
                if locked and self._attempt:
                    self._take(self._attempt)

    def _take(self, attempt: str) -> Reading | None:
        measured = self._measured()
        if measured is None:
            return None
        self._first = first = self._first or measured
        has_cpu = measured.cpu is not None and first.cpu is not None
        cpu = max(0.0, measured.cpu - first.cpu) if has_cpu else None  # type: ignore[operator]
        reading = replace(measured, at=round(measured.at - first.at, 3), cpu=cpu)
        self.readings.append((time.perf_counter_ns(), reading))
        self._hand(attempt, reading)
        return reading

    def _measured(self) -> Reading | None:
        try:
            return self._measure()
        except Exception as error:  # noqa: BLE001 - no cell fails since it could not be measured
            print(f"could not be measured: {error!r}", file=sys.stderr)
            return None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        """Whether the lock was free soon enough."""
        locked = self._lock.acquire(timeout=HUNG_S)
        try:
            yield locked
        finally:
            if locked:
                self._lock.release()


class Meter:
    """Measures this slot: all processes that its supervisor, `root`, started, and its GPUs."""

    def __init__(self, root: int | None = None, proc: str = "/proc") -> None:
        self._root, self._proc = root or os.getppid(), proc
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._indices = [int(part) for part in visible.split(",") if part.isdigit()]
        self._open = contextlib.ExitStack()  # NVML stays open: that takes longer than a reading
        self._nvml: Nvml | None = None
        self._warned = False  # that GPUs are not measured
        self._tells_room = bool(os.environ.get("BENCHFLEET_TELLS_ROOM"))

    def read(self) -> Reading:
        """A reading now; `at` and `cpu` count from an arbitrary start."""
        at = time.monotonic()
        if os.path.isdir(f"{self._proc}/{self._root}"):
            pids = procfs.descendants(self._root, self._proc)
            cpu = procfs.cpu_seconds([self._root, *pids], self._proc)
            ram = sum(procfs.rss(pids, self._proc).values())
        else:
            pids, cpu, ram = _by_psutil(self._root)
        room = free_memory(gpus=False)[CPU] if self._tells_room else None
        return Reading(
            at=at, cpu=round(cpu, 2), ram=ram or None, gpus=self._gpus(pids), **_room_fields(room)
        )

    def _gpus(self, pids: list[int]) -> tuple[GpuReading, ...]:
        if not self._indices:
            return ()
        states: dict[int, GpuState] = {}
        try:
            if self._nvml is None:
                self._nvml = self._open.enter_context(open_nvml())
            states = {gpu.index: gpu for gpu in self._nvml.watched(self._indices)}
        except (DeviceError, MissingExtra) as error:
            if not self._warned:
                self._warned = True
                print(f"GPUs are not measured: {error}", file=sys.stderr)
        ours = set(pids)
        return tuple(self._reading(index, states.get(index), ours) for index in self._indices)

    def _reading(self, index: int, gpu: GpuState | None, ours: set[int]) -> GpuReading:
        if gpu is None or gpu.lost:
            return GpuReading(index=index)
        own = [process.memory for process in gpu.processes if process.pid in ours]
        others = (process.pid for process in gpu.processes if process.pid not in ours)
        return GpuReading(
            index=index,
            memory=gpu.memory - gpu.free if gpu.memory else None,
            total=gpu.memory or None,
            own=sum(own) or None,
            utilisation=gpu.utilisation,
            power=gpu.power,
            temperature=gpu.temperature,
            # In a container the driver tells pids of the host, among which ours cannot be known.
            others=any(os.path.isdir(f"{self._proc}/{pid}") for pid in others),
        )


def _room_fields(room: MemoryState | None) -> dict[str, Any]:
    return {} if room is None else {"total": room.total, "free": room.free, "busy": room.busy}


def _by_psutil(root: int) -> tuple[list[int], float, int]:
    """Pids, CPU seconds and RAM where there is no /proc."""
    import psutil

    tree = psutil.Process(root).children(recursive=True)
    cpu, ram = 0.0, 0
    for process in tree:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            cpu += times.user + times.system
            ram += process.memory_info().rss
    return [process.pid for process in tree], cpu, ram
