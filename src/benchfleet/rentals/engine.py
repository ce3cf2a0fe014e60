"""Slots on rented machines: rents them while a run lasts, and returns them with a proof."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from benchfleet.domain.event import Event
from benchfleet.domain.rental import READY, Rental, RentalHistory, rental_event
from benchfleet.engines.base import (
    AttemptRequest,
    Engine,
    HostAwaited,
    HostLost,
    Post,
    SlotId,
    SlotLost,
    SlotSpec,
)
from benchfleet.errors import LedgerUnreachable
from benchfleet.ledger.base import Ledger, since_boot
from benchfleet.providers.base import ProviderError
from benchfleet.rentals.accounts import open_accounts
from benchfleet.rentals.entry_state import EntryState
from benchfleet.rentals.market import Market
from benchfleet.rentals.prepare import campaign_key
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.rented_host import RentedHost
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.request import RentRequest
from benchfleet.rentals.stream import RentalStream

TURN_S = 10.0  # between two comparisons with the providers' lists
RETURN_LIMIT_S = 600.0  # for the proof that all are gone, at the end of a run
START_LIMIT_S = 1800.0  # from its creation until an instance runs and has an address
MAX_FAILURES = 5  # rentals of one entry in a row


class RentedEngine:
    """Opens slots on rented hosts; see `benchfleet.engines.base` for the contract.

    A thread compares the ledger's rentals with the lists of the providers, rents what is missing,
    prepares each instance, and lets `SshEngine` connect to it. `shutdown` returns all of them.
    `await_end` notes in `request.remaining` what is not proved to be gone.
    """

    def __init__(self, post: Post, request: RentRequest, ledger: Ledger) -> None:
        self._post, self._request = post, request
        accounts = open_accounts(request.providers)
        stream = RentalStream(ledger, since_boot)
        self._stream = stream
        self._reconciler = Reconciler(
            stream=stream, providers=accounts, clock=since_boot, is_owner_dead=request.is_owner_dead
        )
        limits = Limits(budget=request.budget, currency=request.currency)
        self._renting = Renting(stream=stream, limits=limits, clock=since_boot, now=time.time)
        self._key = campaign_key(request.folder)
        self._market = Market(accounts=accounts, public_key=self._key.with_suffix(".pub"))
        self._entries = [EntryState(entry) for entry in request.entries]
        self._hosts: dict[str, RentedHost] = {}  # by rental
        self._engines: dict[SlotId, Engine] = {}
        self._mine: set[str] = set()  # rentals that this process began
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._manager = threading.Thread(target=self._manage, name="rentals", daemon=True)
        self._manager.start()

    # The slots

    def open(self, spec: SlotSpec) -> None:
        engine = self._engine_of(spec.host)
        if engine is None:
            self._post(SlotLost(slot=spec.slot, reason="its host was returned", host_lost=True))
            return
        self._engines[spec.slot] = engine
        engine.open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self._engines[slot].run(slot, request)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._engines[slot].stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        self._engines[slot].close(slot)

    def kill(self, slot: SlotId) -> None:
        self._engines[slot].kill(slot)

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            hosts = list(self._hosts.values())
        return [slot for host in hosts if host.engine for slot in host.engine.slots()]

    def hosts(self) -> Sequence[str]:
        """The entries stand for hosts that are to come, until a `HostLost` ends that."""
        with self._lock:
            names = [host.name for host in self._hosts.values()]
        return [*names, *(one.entry.name for one in self._entries)]

    def _engine_of(self, name: str) -> Engine | None:
        with self._lock:
            return next((one.engine for one in self._hosts.values() if one.name == name), None)

    # The rentals

    def _manage(self) -> None:
        while not self._ending.is_set():
            try:
                self._turn()
            except LedgerUnreachable:
                pass  # the next turn asks again
            except Exception as error:  # noqa: BLE001 - nobody else would report it
                for state in self._entries:
                    self._give_up(state, f"renting failed: {error!r}")
            self._wake.wait(TURN_S)
            self._wake.clear()

    def _turn(self) -> None:
        history = self._reconciler.turn()
        for rental in list(history.rentals.values()):
            if rental.id in self._mine:
                self._follow(rental)
        for state in self._entries:
            if not state.gave_up and not self._ending.is_set():
                self._rent_missing(state, history)

    def _follow(self, rental: Rental) -> None:
        """Act on the state of a rental of ours."""
        host = self._hosts.get(rental.id)
        if rental.state == "created" and host is None:
            self._prepare(rental)
        elif rental.state in ("returning", "ended", "void"):
            if host is not None:
                host.end()
                with self._lock:
                    del self._hosts[rental.id]
                self._post(HostLost(host=host.name, reason=rental.why, removed=True))
            if rental.state != "returning":
                self._mine.discard(rental.id)
                self._count_failure(rental)

    def _prepare(self, rental: Rental) -> None:
        """Begin to make a host of an instance, once it runs and has an address."""
        instance = self._reconciler.listed.get(rental.id)
        waited = since_boot() - self._stream.seen_at(rental)
        if instance is None or instance.state != "running" or not instance.address:
            if waited > START_LIMIT_S:
                why = f"it did not run within {START_LIMIT_S / 60:.0f} min"
                failure = {"stage": "provision", "kind": "no_capacity", "message": why}
                self._renting.give_back(rental, why, failure)
            return
        entry = next(one.entry for one in self._entries if one.entry.name == rental.entry)
        host = RentedHost(
            rental=rental,
            instance=instance,
            entry=entry,
            key=self._key,
            folder=self._request.folder,
            post=self._post,
            ready=self._record_ready,
            failed=self._record_failed,
        )
        with self._lock:
            self._hosts[rental.id] = host
        host.start()

    def _record_ready(self, host: RentedHost) -> None:
        """Record that the instance is a host; its engine may connect."""
        instance = host.instance
        names = "address", "port", "user", "began", "hourly"
        listed = {name: value for name in names if (value := getattr(instance, name)) is not None}
        id = host.rental.id

        def event(history: RentalHistory) -> Event | None:
            created = history.rentals[id].state == "created"
            return rental_event(READY, id, **listed) if created else None

        self._stream.append(event)
        self._state_of(host.rental).failures.clear()
        self._wake.set()

    def _record_failed(self, host: RentedHost, failure: dict[str, str]) -> None:
        self._renting.give_back(host.rental, failure["message"], failure)
        self._market.avoid(host.rental)
        self._wake.set()

    def _state_of(self, rental: Rental) -> EntryState:
        return next(one for one in self._entries if one.entry.name == rental.entry)

    def _count_failure(self, rental: Rental) -> None:
        state = self._state_of(rental)
        if rental.failure is None and rental.state != "void":
            return
        state.failures.append(rental.why)
        if len(state.failures) >= MAX_FAILURES:
            self._give_up(state, f"{MAX_FAILURES} rentals failed; the first: {state.failures[0]}")

    def _rent_missing(self, state: EntryState, history: RentalHistory) -> None:
        """Rent one machine for an entry, if it has fewer than it may have."""
        entry = state.entry
        open_rentals = [one for one in history.open if one.entry == entry.name]
        if len(open_rentals) >= entry.count:
            if any(one.state != "ready" for one in open_rentals):
                self._await(state, "a rented machine is being prepared")
            else:
                self._end_wait(state)
            return
        if time.monotonic() < state.next_offer:
            return
        state.next_offer = time.monotonic() + TURN_S
        chosen = self._market.best(entry)
        if chosen is None:
            state.next_offer = time.monotonic() + self._market.pause_s
            self._await(state, f"nobody offers {entry.gpu} on these terms now")
            return
        rental = self._market.rental(chosen, entry, self._request)
        if not self._renting.limits.allow(rental, history, time.time()):
            self._give_up(state, "the budget allows no further machine")
            return
        self._await(state, "a rented machine is being prepared")
        self._mine.add(rental.id)
        error = self._renting.rent(rental, chosen.provider, chosen.offer, self._market.spec(entry))
        if isinstance(error, ProviderError):
            self._market.avoid(rental)
            self._await(state, str(error))
        self._wake.set()  # a list shows it soon

    def _await(self, state: EntryState, why: str) -> None:
        if why != state.awaited:
            state.awaited = why
            self._post(HostAwaited(host=state.entry.name, reason=why, bounded=True))

    def _end_wait(self, state: EntryState) -> None:
        if state.awaited:
            state.awaited = ""
            self._post(HostLost(host=state.entry.name, reason="all are here", removed=True))

    def _give_up(self, state: EntryState, why: str) -> None:
        if not state.gave_up:
            state.gave_up = True
            self._post(HostLost(host=state.entry.name, reason=why, removed=True))

    # The end

    def shutdown(self) -> None:
        """End all slots and ask for the end of all machines; `await_end` waits for the proof."""
        self._ending.set()
        self._wake.set()
        with self._lock:
            hosts = list(self._hosts.values())
        for host in hosts:
            host.end()
        self._manager.join()
        self._returned()

    def await_end(self, interrupted: Callable[[], bool]) -> None:
        """Wait until lists prove that all are gone, or the time is up, or somebody interrupts."""
        end = since_boot() + RETURN_LIMIT_S
        while not self._returned() and since_boot() < end:
            pause_end = since_boot() + self._pause()
            while since_boot() < pause_end:
                if interrupted():
                    end = 0.0
                    break
        with contextlib.suppress(LedgerUnreachable):
            for rental in self._open_of_mine():
                name = f"{rental.account.provider} {rental.instance or rental.id}"
                price = f"{rental.hourly / 1e6:.3f} {rental.currency}/h"
                self._request.remaining.append(f"{name} at {price}: its end is not proved")

    def _pause(self) -> float:
        """Seconds between two lists: a few, where new instances are listed quickly."""
        windows = [one.visible_within_s for one in self._reconciler.providers.values()]
        return min(TURN_S, max(windows, default=TURN_S) / 3)

    def _returned(self) -> bool:
        """Ask for what is left to be returned; whether nothing is."""
        try:
            for rental in self._open_of_mine():
                if rental.state in ("created", "ready"):
                    self._renting.give_back(rental, "the run ended")
            self._reconciler.turn()
            return not self._open_of_mine()
        except LedgerUnreachable:
            return False

    def _open_of_mine(self) -> list[Rental]:
        """Those that this process rented, and those of runs that died."""
        is_dead = self._request.is_owner_dead
        return [one for one in self._stream.read().open if one.id in self._mine or is_dead(one)]
