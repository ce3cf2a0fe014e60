"""The end of a run that rented: all is returned, and lists of the providers prove it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from benchfleet.domain.rental import Rental
from benchfleet.errors import LedgerUnreachable
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.renting import Renting
from benchfleet.rentals.request import RentRequest
from benchfleet.rentals.stream import RentalStream

_PAUSE_S = 10.0  # between two lists, at most


@dataclass(frozen=True, kw_only=True)
class ReturnProof:
    """Returns what a process rented, and what runs that died did; `is_mine` says which."""

    request: RentRequest
    stream: RentalStream
    reconciler: Reconciler
    renting: Renting
    clock: Callable[[], float]  # counts while the machine sleeps
    is_mine: Callable[[Rental], bool]

    def wait(self, interrupted: Callable[[], bool]) -> None:
        """Wait for the proof, until the request's limit or until somebody interrupts. What is
        left is named in `request.remaining`."""
        end = self.clock() + self.request.return_limit
        if not self.is_complete():
            self.request.tell(
                "rented machines are returned; waiting for the proof that none is left"
            )
        while not self.is_complete() and self.clock() < end:
            pause_end = self.clock() + self._pause()
            while self.clock() < pause_end:
                if interrupted():
                    end = 0.0
                    break
        with contextlib.suppress(LedgerUnreachable):  # then what was read last counts
            self.stream.read()
        for rental in self.stream.history.open:
            with contextlib.suppress(LedgerUnreachable):  # whose it is cannot be seen
                if self.is_mine(rental):
                    self.request.remaining.append(self._named(rental))

    def is_complete(self) -> bool:
        """Ask for what is left to be returned; whether nothing is."""
        try:
            for rental in self._open():
                if rental.state in ("created", "ready"):
                    self.renting.give_back(rental, "the run ended")
            self.reconciler.turn()
            return not self._open()
        except LedgerUnreachable:
            return False

    def _open(self) -> list[Rental]:
        return [one for one in self.stream.read().open if self.is_mine(one)]

    def _named(self, rental: Rental) -> str:
        name = f"{rental.account.provider} {rental.instance or rental.id}"
        provider = self.reconciler.providers.get(rental.account)
        at = f" ({provider.console})" if provider and provider.console else ""
        price = f"{rental.hourly / 1e6:.3f} {rental.currency}/h"
        return f"{name}{at} at {price}: {self.reconciler.problem or 'its end is not proved'}"

    def _pause(self) -> float:
        """Seconds between two lists: a few, where new instances are listed quickly."""
        windows = [one.visible_within_s for one in self.reconciler.providers.values()]
        return min(_PAUSE_S, max(windows, default=_PAUSE_S) / 3)
