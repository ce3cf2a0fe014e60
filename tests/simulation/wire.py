"""The ledger as one process of a simulated fleet has it: far, cut off, full, and watched."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import State
from benchfleet.errors import ClaimLost, LedgerAway, LedgerFull, LedgerUnreachable
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.call_timeout import CallTimeout

_PATIENCE, _PAUSE = 120.0, 1.0  # seconds for a server that is away, and between two tries
_FAR = 0.05  # seconds to a server far away
T = TypeVar("T")


@dataclass(kw_only=True)
class Weather:
    """Where the ledger lies, and its faults: nobody reaches it, or its disk is full."""

    distance: float = 0.0  # seconds until it hears what it is asked
    served: bool = False  # by a server, which is asked again where it is away
    away: bool = False
    full: bool = False


def draw_weather(seed: str) -> Weather:
    """Half of all ledgers have a server, and half of these are far away."""
    chance = random.Random(f"{seed} weather")
    served = chance.random() < 0.5
    return Weather(served=served, distance=chance.choice((0.0, _FAR)) if served else 0.0)


@dataclass(kw_only=True)
class LeaseWatch:
    """Sees every answer of the ledger to any runner, and keeps its own account of the leases.

    `wrong` is what no ledger may answer; `expiries` are the ends of leases that were seen, by
    fingerprint and token.
    """

    now: Callable[[], float]
    lasts: float  # seconds of a lease
    wrong: list[str] = field(default_factory=list)
    expiries: dict[tuple[str, int], float] = field(default_factory=dict)
    _held: dict[str, Lease] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)
    _ended: set[tuple[str, int]] = field(default_factory=set)

    def claimed(self, claims: Iterable[Claim]) -> None:
        for lease in (claim.lease for claim in claims):
            other = self._held.get(lease.fingerprint)
            what = f"cell {lease.fingerprint[:8]} was claimed with token {lease.token}"
            if other is not None and self._until(other) > self.now():
                self.wrong.append(f"{what} while the lease of token {other.token} lasted")
            if lease.token <= self._newest.get(lease.fingerprint, 0):
                self.wrong.append(f"{what}, which is not above those before")
            self._newest[lease.fingerprint] = lease.token
            self._hold(lease)

    def renewed(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if lease.token != self._newest.get(lease.fingerprint):
                what = f"token {lease.token} of cell {lease.fingerprint[:8]}"
                self.wrong.append(f"{what} was renewed after a newer claim")
            self._hold(lease)

    def finished(self, lease: Lease) -> None:
        if (lease.fingerprint, lease.token) in self._ended:
            return  # it is sent again, since the answer was lost
        self._ended.add((lease.fingerprint, lease.token))
        if lease.token != self._newest.get(lease.fingerprint):
            what = f"token {lease.token} of cell {lease.fingerprint[:8]}"
            self.wrong.append(f"{what} was finished after a newer claim")
        self.ended([lease])

    def ended(self, leases: Iterable[Lease]) -> None:
        """They were given back, or came to their end."""
        for lease in leases:
            held = self._held.get(lease.fingerprint)
            if held is not None and held.token == lease.token:
                del self._held[lease.fingerprint]

    def reaped(self, fingerprints: Iterable[Fingerprint]) -> None:
        for fingerprint in fingerprints:
            lease = self._held.pop(fingerprint, None)
            if lease is not None and self._until(lease) > self.now():
                what = f"token {lease.token} of cell {fingerprint[:8]}"
                self.wrong.append(f"{what} was reaped before its lease ran out")

    def cancelled(self, fingerprint: str) -> None:
        self._held.pop(fingerprint, None)

    def _hold(self, lease: Lease) -> None:
        self._held[lease.fingerprint] = lease
        self.expiries[lease.fingerprint, lease.token] = self.now() + self.lasts

    def _until(self, lease: Lease) -> float:
        return self.expiries[lease.fingerprint, lease.token]


class WiredLedger(Ledger):
    """A ledger behind a wire: what is asked may not arrive, and an answer may be lost though what
    was asked was done. A call is repeated until its timeout; then it raises
    `LedgerAway`."""

    def __init__(
        self,
        ledger: Ledger,
        watch: LeaseWatch,
        weather: Weather,
        *,
        step: Callable[[str], None],
        wait: Callable[[float], None],
    ) -> None:
        self._ledger, self._watch, self._weather = ledger, watch, weather
        self._step, self._wait = step, wait
        self._call_timeout = CallTimeout()
        self.cut = False  # this process alone does not reach it
        self.given_up = False  # it was away for longer than a process waits that has the time

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        return self._told("enroll", "enrolled", lambda: self._ledger.enroll(cells, paths=paths))

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        return self._told("claim", "claimed", lambda: self._claimed(runner, candidates, limit))

    def _claimed(self, runner: RunnerId, candidates: Sequence[str], limit: int) -> Sequence[Claim]:
        claims = self._ledger.claim(runner, candidates, limit)
        self._watch.claimed(claims)
        return claims

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        def renewed() -> Sequence[Lease]:
            held = self._ledger.renew(leases)
            self._watch.renewed(held)
            return held

        return self._told("renew", "renewed", renewed)

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """Several at once, whichever the ledger."""
        return self._told("finish", "finished", lambda: self._finished(ended))

    def _finished(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        refused: list[ClaimLost | None] = []
        for lease, outcome in ended:
            try:
                self._ledger.finish(lease, outcome)
                self._watch.finished(lease)
                refused.append(None)
            except ClaimLost as error:
                refused.append(error)
        return refused

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """What this thread asks meanwhile is given up so soon."""
        return self._call_timeout.within(seconds)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        def released() -> None:
            self._ledger.release(leases, reason)
            self._watch.ended(leases)

        self._told("release", "released", released)

    def reap(self) -> Sequence[Fingerprint]:
        def reaped() -> Sequence[Fingerprint]:
            found = self._ledger.reap()
            self._watch.reaped(found)
            return found

        return self._told("reap", "reaped", reaped)

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        yield from self._told(  # not before the first is asked for, as with other ledgers
            "cells",
            "",
            lambda: self._ledger.cells(
                states=states, fingerprints=fingerprints, with_cell=with_cell, parts=parts
            ),
        )

    def record(self, event: Event, *, after: int | None = None) -> int:
        def recorded() -> int:
            number = self._ledger.record(event, after=after)
            if event.kind == "cancel_asked":
                self._watch.cancelled(event.fingerprint)
            return number

        return self._told("record", "recorded", recorded)

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self._told("events", "", lambda: self._ledger.events(since, fingerprints, kinds))

    def last_event(self) -> int:
        return self._told("events", "", self._ledger.last_event)

    def close(self) -> None:
        self._ledger.close()

    def _told(self, verb: str, done: str, ask: Callable[[], T]) -> T:
        """What the ledger answers to a verb; where it writes, the answer may be lost once it is
        `done`."""
        until = self._watch.now() + self._call_timeout.seconds(_PATIENCE)
        while True:
            asked = self._watch.now()  # who is stopped meanwhile has not waited
            try:
                return self._told_once(verb, done, ask)
            except LedgerAway:
                if asked + _PAUSE > until:
                    self.given_up |= not self._call_timeout
                    raise
            self._wait(_PAUSE)

    def _told_once(self, verb: str, done: str, ask: Callable[[], T]) -> T:
        self._step(verb)
        if self._weather.distance:
            self._wait(self._weather.distance)
        self._see_wire()
        if done and self._weather.full:
            raise LedgerFull("the disk of the simulated ledger is full")
        answer = ask()
        if done:
            self._step(done)
            self._see_wire()
        return answer

    def _see_wire(self) -> None:
        if self.cut or self._weather.away:
            kind = LedgerAway if self._weather.served else LedgerUnreachable
            raise kind("the simulated ledger does not answer")
