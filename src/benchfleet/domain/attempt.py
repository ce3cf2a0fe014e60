"""One try of a cell: the lease it runs under, and the outcome it ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

from .cell import Cell, Fingerprint
from .failure import Failure
from .state import FinalState, State

RunnerId = NewType("RunnerId", str)  # a fresh UUID for each process


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The exclusive right to run one attempt of a cell until it expires."""

    fingerprint: Fingerprint
    attempt: int  # 1 for the first claim of the cell
    token: int  # grows with every claim of this cell; a smaller one is refused
    expires_in: float  # seconds from the answer, by the ledger's clock


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim hands over: the lease, the cell, and where its results go."""

    lease: Lease
    cell: Cell
    path: str  # allotted at enrolment, relative to the campaign's folder
    tries: int  # tries already used up, without this one


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended. `retry_in` sends the cell back to pending; otherwise it is final."""

    state: FinalState
    digest: str = ""  # SHA-256 of the sealed cell.json; "" where nothing is published
    failure: Failure | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)  # the summary that reports show
    seconds: Mapping[str, float] = field(default_factory=dict)  # load, benchmark, …
    host: str = ""
    device: str = ""
    charged: bool = True  # False: an infrastructure failure, which uses up no try
    retry_in: float | None = None  # seconds until it may be claimed again

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "failure": self.failure.to_dict() if self.failure else None,
            "metrics": dict(self.metrics),
            "seconds": dict(self.seconds),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Outcome:
        failure = value["failure"]
        return cls(**{**value, "failure": Failure.from_dict(failure) if failure else None})


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
