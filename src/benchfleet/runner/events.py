"""The event queue of a runner: what slots say, and what happens to the runner itself."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.resource import MemoryState
from benchfleet.engines.base import EngineEvent
from benchfleet.runner.attempt.attempt import Attempt

# A signal that reaches another thread does not wake the main one, whose handler runs when it wakes.
_SIGNAL_CHECK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """Somebody asked the runner to end: the first time in good order, the second time now."""

    signal: str


@dataclass(frozen=True, kw_only=True)
class LeaseLost:
    """The ledger says that a lease is held no longer."""

    lease: Lease


@dataclass(frozen=True, kw_only=True)
class AttemptWritten:
    """An attempt ended in folder and ledger, or could not."""

    attempt: Attempt
    outcome: Outcome | Exception


@dataclass(frozen=True, kw_only=True)
class ThreadFailed:
    """A thread of the runner ended by an error that nobody foresaw."""

    error: Exception


@dataclass(frozen=True, kw_only=True)
class LedgerDiskFull:
    """The ledger's disk takes no more."""


@dataclass(frozen=True, kw_only=True)
class LedgerUnavailable:
    """The ledger's server does not answer."""

    why: str


@dataclass(frozen=True, kw_only=True)
class LedgerAvailable:
    """It answers again."""

    refuses: bool = False  # it answered before in this outage, and took nothing since


@dataclass(frozen=True, kw_only=True)
class ThreadWarning:
    """A thread of the runner has something to say."""

    message: str


@dataclass(frozen=True, kw_only=True)
class LedgerChanged:
    """Others made cells claimable."""


@dataclass(frozen=True, kw_only=True)
class MemoryMeasured:
    """What this machine has free, by memory."""

    free_memory: Mapping[str, MemoryState]


RunnerEvent = (
    EngineEvent
    | Interrupted
    | LeaseLost
    | AttemptWritten
    | ThreadFailed
    | LedgerDiskFull
    | LedgerUnavailable
    | LedgerAvailable
    | ThreadWarning
    | LedgerChanged
    | MemoryMeasured
)


class EventQueue:
    """The events of one runner, and the clock that they are measured by: a simulation has both of
    its own."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[RunnerEvent] = queue.SimpleQueue()
        self._is_interrupted = False

    def post(self, event: RunnerEvent) -> None:
        """Add an event; from any thread, and from a signal handler."""
        self._is_interrupted |= isinstance(event, Interrupted)
        self._events.put(event)

    def take(self, wait: float) -> RunnerEvent | None:
        """The next event, or None after `wait` seconds."""
        until = self.now() + wait
        while True:
            remaining = max(0.0, until - self.now())
            try:
                return self._events.get(timeout=min(remaining, _SIGNAL_CHECK_S))
            except queue.Empty:
                if remaining <= _SIGNAL_CHECK_S:
                    return None

    def is_interrupted(self, within: float) -> bool:
        """Whether somebody asked the runner to end, or does so in the next `within` seconds."""
        until = self.now() + within
        while not self._is_interrupted and self.now() < until:
            time.sleep(0.02)  # no lock: a signal handler posts in this very thread
        return self._is_interrupted

    def now(self) -> float:
        """Seconds on a clock that only grows."""
        return time.monotonic()
