"""A GPU at one moment, and the processes that compute on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU, by the number that the driver knows it under, which in a
    container is not its own."""

    pid: int
    name: str = ""  # "" where this machine shows no such process, as the next
    user: str = ""
    memory: int = 0  # bytes on the GPU; 0: unknown
    slot: str = ""  # of benchfleet, which it belongs to

    def __str__(self) -> str:
        who = f"{self.user}: {self.name}" if self.name else "another container's or user's process"
        return f"{who} ({self.pid})"


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """A GPU at one moment."""

    index: int
    name: str = ""
    uuid: str = ""
    memory: int = 0  # bytes
    free: int = 0  # bytes
    processes: tuple[GpuProcess, ...] = ()
    mig: bool = False  # split into instances
    uncorrected: int | None = None  # ECC errors since the driver was loaded; None: not counted
    xids: tuple[int, ...] = ()  # critical errors that the driver reported since the watch began
    temperature: int | None = None  # °C
    utilisation: int | None = None  # %
    power: float | None = None  # W
    lost: str = ""  # why it does not answer; then nothing else is known of it

    @property
    def fault(self) -> str:
        """What is wrong with it as hardware; ``""`` where nothing is."""
        if self.lost:
            return f"it does not answer (NVML: {self.lost})"
        if self.uncorrected:
            return f"its memory had {self.uncorrected} uncorrectable ECC errors"
        if self.xids:
            numbers = ", ".join(map(str, self.xids))
            return f"its driver reported critical errors (Xid {numbers})"
        return ""
