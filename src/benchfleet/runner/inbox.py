"""The one queue of a runner: what slots say, and what happens to the runner itself."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.resource import Headroom
from benchfleet.engines.base import EngineEvent
from benchfleet.runner.attempt import Attempt


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """Somebody asked the runner to end: the first time in good order, the second time now."""

    signal: str


@dataclass(frozen=True, kw_only=True)
class LeaseLost:
    """The ledger says that a lease is held no longer."""

    lease: Lease


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """An attempt ended in folder and ledger, or could not."""

    attempt: Attempt
    outcome: Outcome | Exception


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A thread of the runner ended by an error that nobody foresaw."""

    error: Exception


@dataclass(frozen=True, kw_only=True)
class NoRoom:
    """The ledger's disk takes no more."""


@dataclass(frozen=True, kw_only=True)
class LedgerGone:
    """The ledger's server does not answer."""

    why: str


@dataclass(frozen=True, kw_only=True)
class LedgerBack:
    """It answers again."""


@dataclass(frozen=True, kw_only=True)
class Changed:
    """Others made cells claimable."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What this machine has free, by memory."""

    found: Mapping[str, Headroom]


Arrival = (
    EngineEvent
    | Interrupted
    | LeaseLost
    | Concluded
    | Broken
    | NoRoom
    | LedgerGone
    | LedgerBack
    | Changed
    | Measured
)


class Inbox(Protocol):
    """A queue that knows what time it is, so that a simulation can have its own."""

    def post(self, arrival: Arrival) -> None:
        """Add an arrival; from any thread, and from a signal handler."""
        ...

    def take(self, wait: float) -> Arrival | None:
        """The next arrival, or None after `wait` seconds."""
        ...

    def now(self) -> float:
        """Seconds on a clock that only grows."""
        ...


class RealInbox:
    """An inbox in real time."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Arrival] = queue.SimpleQueue()

    def post(self, arrival: Arrival) -> None:
        self._queue.put(arrival)

    def take(self, wait: float) -> Arrival | None:
        try:
            return self._queue.get(timeout=max(0.0, wait))
        except queue.Empty:
            return None

    def now(self) -> float:
        return time.monotonic()
