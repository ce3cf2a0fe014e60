"""The ledger as one process of a simulated fleet has it: slow, cut off, full, and watched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.domain.state import State
from benchfleet.errors import ClaimLost, LedgerFull, LedgerUnreachable
from benchfleet.ledger.base import Ledger


@dataclass(kw_only=True)
class Weather:
    """What befalls the ledger itself: nobody reaches it, or its disk takes no more."""

    away: bool = False
    full: bool = False


@dataclass(kw_only=True)
class LeaseWatch:
    """Sees every answer of the ledger, whoever asked, and keeps its own account of the leases.

    `wrong` is what no ledger may answer; `expiries` are the ends of leases that were seen, by
    fingerprint and token.
    """

    now: Callable[[], float]
    lasts: float  # seconds of a lease
    wrong: list[str] = field(default_factory=list)
    expiries: dict[tuple[str, int], float] = field(default_factory=dict)
    _held: dict[str, Lease] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)

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


class WiredLedger:
    """A ledger behind a wire: what is asked may not arrive, and an answer may be lost though what
    was asked was done."""

    def __init__(
        self, ledger: Ledger, watch: LeaseWatch, weather: Weather, step: Callable[[str], None]
    ) -> None:
        self._ledger, self._watch, self._weather, self._step = ledger, watch, weather, step
        self.cut = False  # this process alone does not reach it

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        self._ask("enroll", writes=True)
        new = self._ledger.enroll(cells, paths=paths)
        self._answer("enrolled")
        return new

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        self._ask("claim", writes=True)
        claims = self._ledger.claim(runner, offer, limit)
        self._watch.claimed(claims)
        self._answer("claimed")
        return claims

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        self._ask("renew", writes=True)
        held = self._ledger.renew(leases)
        self._watch.renewed(held)
        self._answer("renewed")
        return held

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        self._ask("finish", writes=True)
        self._ledger.finish(lease, outcome)
        self._watch.finished(lease)
        self._answer("finished")

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """Several at once, whichever the ledger."""
        self._ask("finish", writes=True)
        refused = self._finished(ended)
        self._answer("finished")
        return refused

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

    def exchange(
        self, ended: Sequence[tuple[Lease, Outcome]], runner: RunnerId, offer: Offer, limit: int
    ) -> tuple[Sequence[ClaimLost | None], Sequence[Claim]]:
        """What ended with a claim, whichever the ledger."""
        self._ask("exchange", writes=True)
        refused = self._finished(ended)
        claims = self._ledger.claim(runner, offer, limit)
        self._watch.claimed(claims)
        self._answer("exchanged")
        return refused, claims

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """It never waits by itself."""
        return nullcontext()

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        self._ask("release", writes=True)
        self._ledger.release(leases, reason)
        self._watch.ended(leases)
        self._answer("released")

    def reap(self) -> Sequence[Fingerprint]:
        self._ask("reap", writes=True)
        found = self._ledger.reap()
        self._watch.reaped(found)
        self._answer("reaped")
        return found

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        self._ask("cells", writes=False)
        return self._ledger.cells(states=states, among=among, whole=whole)

    def record(self, event: Event) -> int:
        self._ask("record", writes=True)
        number = self._ledger.record(event)
        if event.kind == "cancel_asked":
            self._watch.cancelled(event.fingerprint)
        self._answer("recorded")
        return number

    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        self._ask("events", writes=False)
        return self._ledger.events(since, among, kinds)

    def close(self) -> None:
        self._ledger.close()

    def _ask(self, verb: str, *, writes: bool) -> None:
        self._step(verb)
        self._see_wire()
        if writes and self._weather.full:
            raise LedgerFull("the disk of the simulated ledger is full")

    def _answer(self, done: str) -> None:
        self._step(done)
        self._see_wire()

    def _see_wire(self) -> None:
        if self.cut or self._weather.away:
            raise LedgerUnreachable("the simulated ledger does not answer")
