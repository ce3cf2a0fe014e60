"""What a cell asks of a machine, and what a runner can offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

DeviceKind = Literal["cpu", "gpu"]


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one cell asks for while it runs."""

    gpus: int = 0  # 0: one slot of any kind; n: a slot bound to n GPUs
    vram: int = 0  # bytes on each GPU; 0: not stated


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU, or a share of the CPU."""

    kind: DeviceKind
    index: int
    name: str = ""
    memory: int = 0  # bytes; 0: unknown
    uuid: str = ""  # as the driver knows it
    host: str = ""  # the machine that it is in; "" for this one

    @property
    def type(self) -> str:
        """What others of its make are called too: ``NVIDIA H100``, ``gpu`` where it has no name,
        ``cpu``."""
        return self.name or self.kind if self.kind == "gpu" else self.kind

    @property
    def label(self) -> str:
        """How people see it: ``gpu:0``, ``cpu:1``, ``lab2/gpu:0``."""
        return f"{self.host}/{self.kind}:{self.index}" if self.host else f"{self.kind}:{self.index}"


CPU = "cpu"  # how the memory of a machine's CPU is called, beside those of its GPUs


@dataclass(frozen=True, kw_only=True)
class Headroom:
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


class Choice:
    """The cells that claims are about, each with its rank: the smaller goes first.

    It may change between two claims. A ledger that keeps what it worked out of one asks for what
    changed since; two choices are the same where they are one object.
    """

    def __init__(self, cells: Iterable[str] = ()) -> None:
        self._ranks = dict.fromkeys(cells, 0.0)
        self._changes: list[str] = []

    def __contains__(self, fingerprint: object) -> bool:
        return fingerprint in self._ranks

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)

    def rank(self, fingerprint: str) -> float:
        return self._ranks[fingerprint]

    def put(self, fingerprint: str, rank: float = 0.0) -> None:
        """Take a cell in, or give it another rank."""
        self._ranks[fingerprint] = rank
        self._changes.append(fingerprint)

    def drop(self, fingerprint: str) -> None:
        """Leave a cell out from now on."""
        if self._ranks.pop(fingerprint, None) is not None:
            self._changes.append(fingerprint)

    @property
    def version(self) -> int:
        """Grows with every change."""
        return len(self._changes)

    def changed(self, since: int) -> list[str]:
        """The cells that were taken in, ranked anew or left out since that version."""
        return self._changes[since:]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a runner can take now: the shape of one free slot, and what suits it best."""

    gpus: int = 0  # GPUs in the slot; 0 for a CPU slot
    vram: int = 0  # bytes that are free on each of them
    models: Mapping[str, float] = field(default_factory=dict)  # load key → added to its cells' rank
    others: float | None = 0.0  # the same for any other model; None: only those named
    among: Choice | None = field(default=None, repr=False)  # None: any cell, each of rank 0

    def weight(self, load_key: str) -> float | None:
        """What is added to the rank of a model's cells; None where they are not wanted."""
        weights: Mapping[str, float | None] = self.models
        return weights.get(load_key, self.others)
