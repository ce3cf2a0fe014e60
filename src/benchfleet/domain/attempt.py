"""One try of a cell: the lease it runs under, and the outcome it ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NewType

from .cell import Cell, Fingerprint
from .failure import Failure
from .state import FinalState, State
from .usage import Usage

RunnerId = NewType("RunnerId", str)  # a fresh UUID for each process


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The exclusive right to run one attempt of a cell until it expires."""

    fingerprint: Fingerprint
    attempt: int  # 1 for the first claim of the cell
    token: int  # grows with every claim of this cell; a smaller one is refused
    expires_in: float  # seconds from the answer, by the ledger's clock


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the next attempt of a cell is to do differently, since memory ran out."""

    batch_size: int = 0  # at most; 0: as declared
    alone: bool = False  # no other slot of its runner shares the memory that it has
    vram: int = 0  # bytes on each of its GPUs at least, beside what the cell needs

    def __bool__(self) -> bool:
        return bool(self.batch_size or self.alone or self.vram)

    def __str__(self) -> str:
        """``with batch size 4, alone, on at least 26 GB``."""
        parts = [
            f"with batch size {self.batch_size}" if self.batch_size else "",
            "alone" if self.alone else "",
            f"on at least {self.vram / 1e9:.3g} GB" if self.vram else "",
        ]
        return ", ".join(part for part in parts if part)


_NO_ADVICE = Advice()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended. `retry_in` sends the cell back to pending; otherwise it is final."""

    state: FinalState
    digest: str = ""  # SHA-256 of the sealed cell.json; "" where nothing is published
    failure: Failure | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)  # the summary that reports show
    reported: Mapping[str, Any] = field(default_factory=dict)  # by the benchmark, for gates
    seconds: Mapping[str, float] = field(default_factory=dict)  # load, benchmark, …
    host: str = ""
    device: str = ""
    device_type: str = ""  # "cpu", or what the GPU is called, such as NVIDIA H100
    resumed: int = 0  # samples that earlier attempts had answered
    charged: bool = True  # False: an infrastructure failure, which uses up no try
    retry_in: float | None = None  # seconds until it may be claimed again
    advice: Advice = Advice()  # for the next attempt; of the last one, what it was advised itself
    first: Failure | None = None  # the cell's first true reason, where `failure` is a later one
    failures: Mapping[str, int] = field(default_factory=dict)  # by kind, this one's too
    usage: Usage | None = None  # what the attempt used up
    taken_from: str = ""  # the result cache that its result came from; "" if it ran

    @property
    def reason(self) -> Failure | None:
        """Why the cell has no result: the first true reason, whatever came after it."""
        return self.first or self.failure

    @property
    def why(self) -> str:
        """The reason with its count, and what was done differently; ``""`` without a failure."""
        if self.reason is None:
            return ""
        count = sum(self.failures.values())
        parts = [str(self.reason)]
        if count > 1:
            kinds = ", ".join(f"{times} {kind}" for kind, times in self.failures.items())
            parts.append(f"failed {count} times ({kinds})")
        if self.advice and self.retry_in is None:
            parts.append(f"at last {self.advice}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; what most outcomes do not have is left out."""
        seldom = {
            "reported": dict(self.reported),
            "device_type": self.device_type,
            "resumed": self.resumed,
            "advice": asdict(self.advice) if self.advice else None,
            "first": self.first.to_dict() if self.first else None,
            "failures": dict(self.failures),
            "usage": self.usage.to_dict() if self.usage else None,
            "taken_from": self.taken_from,
        }
        return {
            "state": self.state,
            "digest": self.digest,
            "failure": self.failure.to_dict() if self.failure else None,
            "metrics": dict(self.metrics),
            "seconds": dict(self.seconds),
            "host": self.host,
            "device": self.device,
            "charged": self.charged,
            "retry_in": self.retry_in,
            **{name: value for name, value in seldom.items() if value},
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Outcome:
        values = dict(value)
        for name in ("failure", "first"):
            if values.get(name):
                values[name] = Failure.from_dict(values[name])
        if "advice" in values:
            values["advice"] = Advice(**values["advice"])
        if "usage" in values:
            values["usage"] = Usage.from_dict(values["usage"])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim hands over: the lease, the cell, and where its results go."""

    lease: Lease
    cell: Cell
    path: str  # allotted at enrolment, relative to the campaign's folder
    tries: int  # tries already used up, without this one
    retry_of: Outcome | None = None  # the outcome that asked for this try; None for a first one

    @property
    def advice(self) -> Advice:
        """What this attempt is to do differently."""
        return self.retry_of.advice if self.retry_of else _NO_ADVICE

    @property
    def batch_size(self) -> int:
        """The effective one: as declared, or smaller where the advice says so."""
        declared = self.cell.workload.batch_size
        return min(declared, self.advice.batch_size or declared)


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """A cell as the ledger has it now."""

    fingerprint: Fingerprint
    id: str
    path: str
    state: State
    attempt: int  # claims so far
    tries: int  # tries used up
    token: int
    runner: str = ""  # who holds it
    expires_in: float | None = None  # seconds left of its lease; None where none is held
    ready_in: float = 0.0  # seconds until it may be claimed
    outcome: Outcome | None = None  # of the last attempt that ended
    cell: Cell | None = None  # only where it was asked for

    @property
    def lease(self) -> Lease:
        """The lease of a running cell, to release it."""
        return Lease(
            fingerprint=self.fingerprint,
            attempt=self.attempt,
            token=self.token,
            expires_in=self.expires_in or 0.0,
        )
