"""The ledger's stream of rentals: reads it, and appends what is true of what was read."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any

from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.event import Event
from benchfleet.domain.rental import KINDS, SIGN, SIGNS, SUBJECT, Rental, RentalHistory
from benchfleet.errors import Superseded
from benchfleet.ledger.base import Ledger

_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"  # base32, as labels take it
_LEDGER_ID_LETTERS, _RENTAL_ID_LETTERS = 10, 8
_KEPT_EVERY_S = 300.0  # between two signs of life of a runner with rentals
_SILENT_S = 900.0  # without one: the runner is dead
_HOSTED = 3  # times as long where each write is a push to a hosted repository


def random_id(letters: int = _RENTAL_ID_LETTERS) -> str:
    """A random id, of a rental by default."""
    return "".join(secrets.choice(_LETTERS) for _ in range(letters))


class RentalStream:
    """The rentals of a ledger, and when this process first saw each state of each. Several threads
    may use it.

    Clocks of machines are never compared: `seen_at` is by `clock`, which must not go back and must
    count while the machine sleeps.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self.history = RentalHistory()
        self._seen: dict[str, tuple[str, float]] = {}  # by rental: its state, and since when
        self._first_seen: dict[str, float] = {}  # by rental
        self._signs: dict[str, float] = {}  # by process: when its last sign of life was seen
        self._last_sign = 0  # number of the last such event
        self._next_sign = 0.0
        self._factor = _HOSTED if ledger.hosted else 1
        self._lock = threading.RLock()

    def read(self) -> RentalHistory:
        """The rentals now. Raises LedgerUnreachable."""
        with self._lock:
            events = self._ledger.events(self.history.last, fingerprints=[SUBJECT], kinds=KINDS)
            for event in events:
                self.history.take(event)
            now = self._clock()
            for id, rental in self.history.rentals.items():
                self._first_seen.setdefault(id, now)
                if self._seen.get(id, ("", 0.0))[0] != rental.state:
                    self._seen[id] = rental.state, now
            return self.history

    def seen_at(self, rental: Rental) -> float:
        """When this process first saw the rental in its state."""
        return self._seen[rental.id][1]

    def keep(self, process: Mapping[str, Any]) -> None:
        """Record now and then that this process lives. Raises LedgerUnreachable."""
        if self._clock() < self._next_sign:
            return
        self._next_sign = self._clock() + _KEPT_EVERY_S * self._factor
        data = {"process": dict(process)}
        self._ledger.record(Event(kind=SIGN, fingerprint=SIGNS, data=data))

    def is_silent(self, rental: Rental) -> bool:
        """Whether the process that has the rental gave no sign of life for a long time. It is
        measured by our own clock, from when this process first read of the rental.

        Raises LedgerUnreachable.
        """
        with self._lock:
            now = self._clock()
            for event in self._ledger.events(self._last_sign, fingerprints=[SIGNS]):
                self._last_sign = event.seq
                self._signs[canonical_json(event.data["process"])] = now
            seen = self._signs.get(canonical_json(dict(rental.process)), 0.0)
            return now - max(seen, self._first_seen[rental.id]) > _SILENT_S * self._factor

    def append(self, decide: Callable[[RentalHistory], Event | None]) -> bool:
        """Append what `decide` returns for the history as it is; whether it returned an event.

        If another runner appends first, `decide` is asked again. Raises LedgerUnreachable; then it
        is not known whether the event was recorded.
        """
        with self._lock:
            while (event := decide(history := self.read())) is not None:
                try:
                    self._ledger.record(event, after=history.last)
                except Superseded:
                    continue
                self.read()
                return True
            return False

    def intend(self, rental: Rental, allowed: Callable[[RentalHistory], bool]) -> bool:
        """Record the intent to rent if the history allows it; whether it is recorded. No request
        that creates something may be sent before."""

        def intent(history: RentalHistory) -> Event | None:
            if rental.id in history.rentals or not allowed(history):
                return None
            return rental.intent(history.ledger_id or random_id(_LEDGER_ID_LETTERS))

        self.append(intent)
        recorded = self.history.rentals.get(rental.id)
        return recorded is not None and recorded.state == "intended"
