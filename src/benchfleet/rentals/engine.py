"""Slots on rented machines: rents them while a run lasts, and returns them with a proof."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from benchfleet.domain.event import Event
from benchfleet.domain.rental import READY, Rental, RentalHistory, rental_event
from benchfleet.engines.base import Engine, HostAwaited, HostLost, Post, SlotId
from benchfleet.engines.slot_router import SlotRouter
from benchfleet.errors import LedgerUnreachable
from benchfleet.ledger.base import Ledger, since_boot
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


class RentedEngine(SlotRouter):
    """Opens slots on rented hosts; see `benchfleet.engines.base` for the contract.

    A thread compares the ledger's rentals with the lists of the providers, rents what is missing,
    prepares each instance, and lets `SshEngine` connect to it. `shutdown` returns all of them.
    `await_end` notes in `request.remaining` what is not proved to be gone.
    """

    def __init__(self, post: Post, request: RentRequest, ledger: Ledger) -> None:
        super().__init__(post)
        self._request = request
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
        self._mine: set[str] = set()  # rentals that this process began
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._manager = threading.Thread(target=self._manage, name="rentals", daemon=True)
        self._manager.start()

    # The slots

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            hosts = list(self._hosts.values())
        return [slot for host in hosts if host.engine for slot in host.engine.slots()]

    def hosts(self) -> Sequence[str]:
        """The entries stand for hosts that are to come, until a `HostLost` ends that."""
        with self._lock:
            names = [host.name for host in self._hosts.values()]
        return [*names, *(one.entry.name for one in self._entries)]

    def _engine_of(self, host: str) -> Engine | None:
        with self._lock:
            return next((one.engine for one in self._hosts.values() if one.name == host), None)

    # The rentals

    def _manage(self) -> None:
        while not self._ending.is_set():
            try:
                self._turn()
            except LedgerUnreachable:
                pass  # the next turn asks again
            except Exception as error:  # noqa: BLE001 - nobody else would report it
                for state in self._entries:
                    state.refused = state.refused or f"renting failed: {error!r}"
                    self._post_wait(state, self._stream.history)
            self._wake.wait(TURN_S)
            self._wake.clear()

    def _turn(self) -> None:
        history = self._reconciler.turn()
        for rental in list(history.rentals.values()):
            if rental.id in self._mine:
                self._follow(rental)
        for state in self._entries:
            if not self._ending.is_set():
                self._rent_missing(state, history)
                self._post_wait(state, self._stream.history)

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
            first = state.failures[0]
            state.refused = f"{MAX_FAILURES} rentals failed in a row; the first: {first}"

    def _rent_missing(self, state: EntryState, history: RentalHistory) -> None:
        """Rent one machine for an entry, if it may have more and one is offered."""
        entry = state.entry
        rented = [one for one in history.open if one.entry == entry.name]
        if state.refused or len(rented) >= entry.count or time.monotonic() < state.next_offer:
            return
        state.next_offer = time.monotonic() + TURN_S
        chosen = self._market.best(entry)
        if chosen is None:
            state.next_offer = time.monotonic() + self._market.pause_s
            state.waits_for = self._market.why_none(entry)
            return
        rental = self._market.rental(chosen, entry, self._request)
        if problem := self._renting.limits.problem(rental, history, time.time()):
            state.refused = problem
            return
        self._mine.add(rental.id)
        error = self._renting.rent(
            rental, chosen.provider, chosen.offer, self._market.spec(entry), count=entry.count
        )
        state.waits_for = str(error) if error else ""
        if error:
            self._market.avoid(rental)
        self._wake.set()  # a list shows it soon

    def _post_wait(self, state: EntryState, history: RentalHistory) -> None:
        """Say what the runner waits for, or that it waits for no further machine."""
        rented = [one for one in history.open if one.entry == state.entry.name]
        mine = [one for one in rented if one.id in self._mine]
        if any(one.state in ("intended", "created") for one in mine):
            why = "a rented machine is being prepared"
        elif state.refused or (mine and len(rented) >= state.entry.count):
            why = ""
        elif len(rented) >= state.entry.count:
            why = "other runs rent as many machines as 'count' allows"
        else:
            why = state.waits_for or f"a machine is looked for: {state.entry.gpu}"
        if why == state.awaited:
            return
        state.awaited = why
        if why:
            self._post(HostAwaited(host=state.entry.name, reason=why, bounded=True))
        else:
            refused = bool(state.refused)
            reason = state.refused or "all are here"
            lost = HostLost(host=state.entry.name, reason=reason, hopeless=refused, removed=True)
            self._post(lost)

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
        if not self._ending.is_set():
            self.shutdown()
        end = since_boot() + RETURN_LIMIT_S
        if not self._returned():
            self._request.tell(
                "rented machines are returned; waiting for the proof that none is left"
            )
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
                why = self._reconciler.problem or "its end is not proved"
                self._request.remaining.append(f"{name} at {price}: {why}")

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
