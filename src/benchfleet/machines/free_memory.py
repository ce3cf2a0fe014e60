"""What is free of this machine's memory now, and how busy what computes beside it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchfleet.domain.resource import CPU, MemoryState
from benchfleet.errors import DeviceError
from benchfleet.machines.nvml import open_nvml

_CGROUP = Path("/sys/fs/cgroup")


def free_memory(*, gpus: bool, cgroup: Path = _CGROUP) -> Mapping[str, MemoryState]:
    """The memory of the CPU under `CPU` and, where they are asked for, of each GPU under its label;
    those that do not answer are left out."""
    memories = {CPU: _ram(cgroup)}
    if gpus:
        try:
            with open_nvml() as nvml:
                for gpu in nvml.gpus():
                    if not gpu.lost:
                        busy = None if gpu.utilisation is None else gpu.utilisation / 100
                        room = MemoryState(total=gpu.memory, free=gpu.free, busy=busy)
                        memories[f"gpu:{gpu.index}"] = room
        except DeviceError:
            pass  # nothing is known of them, and so nothing is risked
    return memories


def _ram(cgroup: Path) -> MemoryState:
    """Of this machine, or of the control group that this process is held in."""
    import psutil

    whole = psutil.virtual_memory()
    total, free = int(whole.total), int(whole.available)
    try:
        most = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        counts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        cached = int(counts.get("inactive_file", 0))  # is given back where memory is short
    except (OSError, ValueError):  # "max", or no such group
        pass
    else:
        total, free = min(total, most), max(0, min(free, most - used + cached))
    return MemoryState(total=total, free=free, busy=psutil.cpu_percent() / 100)
