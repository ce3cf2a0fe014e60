"""What a cell asks of a machine, and the devices that a machine has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["cpu", "gpu", "endpoint"]

DEFAULT_ENDPOINT_SLOTS = 4  # cells at a time that ask servers elsewhere, on each machine


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one cell asks for while it runs."""

    gpus: int = 0  # 0: one slot of any kind; n: a slot bound to n GPUs
    vram: int = 0  # bytes on each GPU; 0: not stated
    endpoint: bool = False  # it asks a server elsewhere, so it takes no GPU and no CPU slot


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, a share of the CPU, or an endpoint: a place for a cell that asks a server
    elsewhere."""

    kind: DeviceKind
    index: int
    name: str = ""
    memory: int = 0  # bytes; 0: unknown
    uuid: str = ""  # as the driver knows it
    host: str = ""  # the machine that it is in; "" for this one

    @property
    def type(self) -> str:
        """What others of its make are called too: ``NVIDIA H100``, ``gpu`` where it has no name,
        ``cpu``, ``endpoint``."""
        return self.name or self.kind if self.kind == "gpu" else self.kind

    @property
    def label(self) -> str:
        """How people see it: ``gpu:0``, ``cpu:1``, ``lab2/gpu:0``, ``endpoint:0``."""
        return f"{self.host}/{self.kind}:{self.index}" if self.host else f"{self.kind}:{self.index}"


CPU = "cpu"  # how the memory of a machine's CPU is called, beside those of its GPUs


@dataclass(frozen=True, kw_only=True)
class MemoryState:
    """What is free of one memory, at one moment."""

    total: int  # bytes
    free: int  # bytes
    busy: float | None = None  # part of the time that its processor computes; None: not known


@dataclass(frozen=True, kw_only=True)
class GpuChecks:
    """How the GPUs of a slot are looked at before it is used: always whether they answer, are
    well, and have the room."""

    share: bool = False  # those that were named one by one are used beside other people's processes
    trial: bool = False  # something is computed on them first
