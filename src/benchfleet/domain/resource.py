"""What a cell asks of a machine, and the devices that a machine has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from .hardware import Hardware, MachineHardware

DeviceKind = Literal["cpu", "gpu", "endpoint"]

UNNAMED_SERVER = "unknown"  # a server elsewhere whose address is not known here
DEFAULT_ENDPOINT_SLOTS = 1  # cells at a time that ask one server elsewhere


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one cell asks for while it runs."""

    gpus: int = 0  # 0: one slot of any kind; n: a slot bound to n GPUs
    vram: int = 0  # bytes on each GPU; 0: not stated
    endpoint: str = ""  # the server elsewhere that it asks: it takes no GPU and no CPU slot
    hardware: tuple[Hardware, ...] = ()  # it runs on one of these alone; (): anywhere

    @classmethod
    def of(
        cls, fields: Mapping[str, Any], hardware: tuple[Hardware, ...], kwargs: Mapping[str, Any]
    ) -> Need:
        """What a ledger has of it, for a model with these kwargs. Ledgers of earlier versions have
        no name of a server, but whether there is one."""
        stored = dict(fields)
        if isinstance(stored.get("endpoint"), bool):
            name = server_name(str(kwargs.get("url", ""))) or UNNAMED_SERVER
            stored["endpoint"] = name if stored["endpoint"] else ""
        return cls(**stored, hardware=hardware)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, a share of the CPU, or an endpoint: a place for a cell that asks the server
    elsewhere whose name it has."""

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
        """How people see it: ``gpu:0``, ``cpu:1``, ``lab2/gpu:0``, ``endpoint:lab7:8000``."""
        which = self.name if self.kind == "endpoint" else self.index
        return f"{self.host}/{self.kind}:{which}" if self.host else f"{self.kind}:{which}"


def server_name(url: str) -> str:
    """The server at a URL, as ``host:port``; the same for all of its models. ``""`` without one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").replace("localhost", "127.0.0.1").replace("::1", "127.0.0.1")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # `problem` names it
        return ""
    return f"{host}:{port}" if host else ""


def hardware_of(devices: Iterable[Device]) -> MachineHardware:
    """The hardware of a machine with these devices."""
    gpus = [device for device in devices if device.kind == "gpu"]
    memory = min((gpu.memory for gpu in gpus), default=0)
    return MachineHardware(gpus=tuple(gpu.name for gpu in gpus), memory=memory)


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
