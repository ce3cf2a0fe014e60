"""The leases a runner holds, and the one place that renews them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from benchfleet.domain.attempt import Lease
from benchfleet.domain.event import Event
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import LedgerError, LedgerUnreachable
from benchfleet.ledger.base import DEFAULT_LEASE_S, Ledger, since_boot


class LeaseHeartbeat:
    """Renews what is held, every fifth of a lease, from a thread of its own.

    `lost` is called for each lease that the ledger no longer honours, from that thread or that of
    `follow`, and `broken` with an error that nobody foresaw, which ends the renewing. While the
    ledger cannot be reached the leases are asked for again: they hold until they run out, and a
    finish is good even after that while nobody else claimed the cell. `clock` goes on in sleep.
    `ending`, on which it waits between two renewals, and `thread` can be a simulation's own.
    """

    def __init__(
        self,
        ledger: Ledger,
        lost: Callable[[Lease], None],
        broken: Callable[[Exception], None],
        *,
        every: float = DEFAULT_LEASE_S / 5,
        clock: Callable[[], float] = since_boot,
        ending: threading.Event | None = None,
        thread: Callable[..., threading.Thread] = threading.Thread,
    ) -> None:
        self._ledger, self._lost, self._broken, self._every = ledger, lost, broken, every
        self._clock, self._renewed = clock, clock()
        self._leases: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self.progress: Callable[[], WorkerProgress] | None = None  # reported with each renewal
        self._end = ending or threading.Event()
        self._thread = thread(target=self._keep, name="leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the renewing; what is held stays held until it runs out or is given back."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def hold(self, lease: Lease) -> None:
        with self._lock:
            self._leases[lease.fingerprint] = lease

    def drop(self, lease: Lease) -> None:
        with self._lock:
            if self._leases.get(lease.fingerprint) == lease:  # else a later attempt holds its own
                del self._leases[lease.fingerprint]

    def leases(self) -> list[Lease]:
        with self._lock:
            return list(self._leases.values())

    def behind(self) -> bool:
        """Whether what is held should have been renewed long ago: the machine slept."""
        return bool(self._leases) and self._clock() - self._renewed > 2 * self._every

    def holds(self, fingerprint: str) -> bool:
        """Whether a lease of this cell is held."""
        with self._lock:
            return fingerprint in self._leases

    def is_current(self, lease: Lease) -> bool:
        """Whether a lease is held yet; the ledger is asked where it may have run out meanwhile.
        Raises `LedgerUnreachable`."""
        if self.behind():
            self.renew()
        with self._lock:
            return self._leases.get(lease.fingerprint) == lease

    def renew(self) -> None:
        """Renew everything once. Raises `LedgerUnreachable`."""
        now, leases = self._clock(), self.leases()
        if not leases:
            self._renewed = now
            return
        good = {lease.fingerprint for lease in self._ledger.renew(leases)}
        self._renewed = now
        for lease in leases:
            with self._lock:
                if self._leases.get(lease.fingerprint) != lease:
                    continue  # ended while it was being renewed
                if lease.fingerprint in good:
                    continue
                del self._leases[lease.fingerprint]
            self._lost(lease)

    def follow(self, events: Sequence[Event]) -> None:
        """Report the leases that events of the ledger ended: another runner or a person took them.
        Otherwise only the next renewal would notice."""
        for event in events:
            with self._lock:
                lease = self._leases.get(event.fingerprint)
                if lease is None or not _ends(event, lease):
                    continue
                del self._leases[lease.fingerprint]
            self._lost(lease)

    def _report(self) -> None:
        """Report the progress; what fails here never keeps a lease from its renewal."""
        if self.progress is not None and self._leases:
            with suppress(LedgerError):
                self._ledger.report_progress(self.progress())

    def _keep(self) -> None:
        while not self._end.wait(self._every):
            try:
                self._report()
                self.renew()
            except LedgerUnreachable:
                continue  # it is asked again; the runner's own calls report it
            except Exception as error:  # noqa: BLE001 - the runner must hear of it
                self._broken(error)
                return


def _ends(event: Event, lease: Lease) -> bool:
    """Whether the lease is lost by this event of its cell."""
    if event.kind in ("released", "reaped"):
        return bool(event.data["token"] == lease.token)
    return event.kind == "claimed" and event.data["token"] > lease.token
