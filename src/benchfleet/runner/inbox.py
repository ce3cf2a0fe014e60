"""The one queue of a runner: what slots say, and what happens to the runner itself."""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.resource import Headroom
from benchfleet.engines.base import EngineEvent, Source
from benchfleet.runner.trying.attempt import Attempt

_LONG = 3600.0  # seconds that nothing is due, where nothing is watched


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
class Said:
    """A thread of the runner has something to say."""

    message: str


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
    | Said
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
    """An inbox in real time. Whoever takes from it brings in, in the same thread, what the sources
    have that it watches."""

    def __init__(self) -> None:
        self._posted: deque[Arrival] = deque()
        self._sources: dict[int, Source] = {}
        self._due = 0.0  # when all of them are turned to, whether anything came or not
        self._poll = select.poll()
        self._sleeps = False
        self._waking, self._woken = os.pipe()
        for end in (self._waking, self._woken):
            os.set_blocking(end, False)
        self._poll.register(self._waking, select.POLLIN)

    def __del__(self) -> None:
        os.close(self._waking)
        os.close(self._woken)

    def watch(self, source: Source) -> None:
        handle = source.fileno()
        self._sources[handle] = source
        self._poll.register(handle, select.POLLIN)
        self._due = 0.0

    def forget(self, source: Source) -> None:
        handle = source.fileno()
        del self._sources[handle]
        self._poll.unregister(handle)

    def post(self, arrival: Arrival) -> None:
        self._posted.append(arrival)
        if self._sleeps:
            with contextlib.suppress(BlockingIOError):  # it will wake up anyway
                os.write(self._woken, b"!")

    def take(self, wait: float) -> Arrival | None:
        until = self.now() + wait
        while True:
            if (now := self.now()) >= self._due:
                waits = [source.turn() for source in list(self._sources.values())]
                self._due = now + min(waits, default=_LONG)
            if self._posted:
                return self._posted.popleft()
            if now >= until:
                return None
            self._sleep(min(self._due, until) - now)

    def _sleep(self, seconds: float) -> None:
        """Until something is posted, or can be brought in, or the time is over."""
        self._sleeps = True
        try:
            if not self._posted:  # what is posted from now on wakes it
                found = self._poll.poll(math.ceil(seconds * 1e3))
                for handle, _ in found:
                    if handle == self._waking:
                        os.read(handle, 4096)
                    elif (source := self._sources.get(handle)) is not None:
                        source.turn()
        finally:
            self._sleeps = False

    def now(self) -> float:
        return time.monotonic()
