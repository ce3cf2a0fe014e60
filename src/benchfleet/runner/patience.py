"""A ledger on a disk that may be full for a while: what ended is told to it once there is room."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.domain.state import State
from benchfleet.errors import LedgerFull
from benchfleet.ledger.base import Ledger

PAUSE = 1.0  # seconds between tries


class PatientLedger:
    """Another ledger, asked again while its disk is full.

    What ended waits for room, until `ending` is set; then `LedgerFull` is raised. Nothing is
    claimed or taken back meanwhile, nor before leases that could not be renewed are; those that
    cannot be given back run out by themselves. `full` is called, from whatever thread, each time.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        full: Callable[[], None],
        ending: threading.Event,
        pause: float = PAUSE,
    ) -> None:
        self._ledger, self._full, self._ending, self._pause = ledger, full, ending, pause
        self._behind: Sequence[Lease] = ()  # leases that could not be renewed

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        while True:
            try:
                return self._ledger.finish(lease, outcome)
            except LedgerFull:
                self._full()
                if self._ending.wait(self._pause):
                    raise

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with contextlib.suppress(LedgerFull):
            self._ledger.release(leases, reason)

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        try:
            self._catch_up()
            return self._ledger.claim(runner, offer, limit)
        except LedgerFull:
            self._full()
            return []

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        try:
            held = self._ledger.renew(leases)
        except LedgerFull:
            self._behind = leases
            self._full()
            return leases  # they hold until they are taken back
        self._behind = ()
        return held

    def _catch_up(self) -> None:
        """Renew what ran out for want of room alone. Raises `LedgerFull`."""
        if self._behind:
            self._ledger.renew(self._behind)
            self._behind = ()

    def reap(self) -> Sequence[Fingerprint]:
        try:
            self._catch_up()
            return self._ledger.reap()
        except LedgerFull:
            self._full()
            return []

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        return self._ledger.enroll(cells, paths=paths)

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        return self._ledger.cells(states=states, among=among, whole=whole)

    def record(self, event: Event) -> int:
        return self._ledger.record(event)

    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self._ledger.events(since, among, kinds)

    def close(self) -> None:
        self._ledger.close()
