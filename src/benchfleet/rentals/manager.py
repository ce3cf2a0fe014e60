"""Rents machines while cells wait, makes hosts of them, and returns them, turn by turn."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial

from benchfleet.domain.rental import TAIL_S, Account, Rental, RentalHistory
from benchfleet.domain.resource import Need
from benchfleet.engines.base import HostLost, Post
from benchfleet.errors import LedgerUnreachable
from benchfleet.ledger.base import Ledger
from benchfleet.providers.base import Provider
from benchfleet.rentals.clocks import Clocks
from benchfleet.rentals.entry_state import EntryState, failure_of
from benchfleet.rentals.market import Market, MarketOffer, want_of
from benchfleet.rentals.prepare import campaign_key
from benchfleet.rentals.proof import ReturnProof
from benchfleet.rentals.reconcile import Reconciler
from benchfleet.rentals.rented_host import RentedHost
from benchfleet.rentals.renting import Limits, Renting
from benchfleet.rentals.replanning import raise_plans
from benchfleet.rentals.request import RentRequest
from benchfleet.rentals.stage_limits import stage_limits
from benchfleet.rentals.stream import RentalStream

TURN_S = 10.0  # between two comparisons with the providers' lists
REPLAN_S = 900.0  # between two plans, unless a machine failed


class RentalManager:
    """A thread that compares the ledger's rentals with the lists of the providers, rents what is
    missing while cells wait, prepares each instance, and returns those without work.

    `hosts` are the machines that are prepared or used, by rental; change it under `lock` only.
    """

    def __init__(
        self,
        post: Post,
        request: RentRequest,
        ledger: Ledger,
        accounts: Mapping[Account, Provider],
        clocks: Clocks,
    ) -> None:
        self._post, self._request, self._clocks, self._ledger = post, request, clocks, ledger
        self._next_plan = clocks.since_boot() + REPLAN_S
        self.stream = RentalStream(ledger, clocks.since_boot)
        self._reconciler = Reconciler(
            stream=self.stream,
            providers=accounts,
            clock=clocks.since_boot,
            is_owner_dead=self._is_owner_dead,
            traffic=lambda rental: self._traffic.get(rental.id, 0),
        )
        limits = Limits(budget=request.budget, currency=request.currency, spending=request.spending)
        self._renting = Renting(
            stream=self.stream, limits=limits, clock=clocks.since_boot, now=clocks.now
        )
        self._key = campaign_key(request.folder)
        self._market = Market(accounts=accounts, public_key=self._key.with_suffix(".pub"))
        self.entries = [EntryState(entry) for entry in request.entries]
        self.hosts: dict[str, RentedHost] = {}
        self.lock = threading.RLock()
        self.proof = ReturnProof(
            request=request,
            stream=self.stream,
            reconciler=self._reconciler,
            renting=self._renting,
            clock=clocks.since_boot,
            is_mine=lambda rental: rental.id in self._mine or self._is_owner_dead(rental),
        )
        self._mine: set[str] = set()  # rentals that this process began
        self._reported: set[str] = set()  # of these, whose end the runner knows
        self._traffic: dict[str, int] = {}  # bytes to and from machines, by rental
        self._waiting: Mapping[Need, int] = {}  # cells, as the runner last said
        self._ending, self._wake = clocks.event(), clocks.event()
        self.thread = clocks.thread(self._manage, "rentals")

    def expect(self, waiting: Mapping[Need, int]) -> None:
        """Take in how many cells wait, by what they need."""
        before, self._waiting = self._waiting, waiting
        if waiting and not before:
            self._wake.set()

    def end(self) -> None:
        """End all hosts, then the turns; ask for the end of all machines. A second call does
        nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._wake.set()
        with self.lock:
            hosts = list(self.hosts.values())
        for host in hosts:
            host.end()
            self._traffic[host.rental.id] = host.traffic
        self.thread.join()
        self.proof.is_complete()

    def _is_owner_dead(self, rental: Rental) -> bool:
        """Where this machine cannot tell, the runner's signs of life do."""
        if rental.id in self._mine:
            return False
        dead = self._request.is_owner_dead(rental)
        return self.stream.is_silent(rental) if dead is None else dead

    def _manage(self) -> None:
        while not self._ending.is_set():
            try:
                self._turn()
            except LedgerUnreachable:
                pass  # the next turn asks again
            except Exception as error:  # noqa: BLE001 - nobody else would report it
                for state in self.entries:
                    state.refused = state.refused or f"renting failed: {error!r}"
                    self._post_wait(state, self.stream.history)
            self._wake.wait(TURN_S)
            self._wake.clear()

    def _turn(self) -> None:
        history = self._reconciler.turn()
        mine = [one for one in history.rentals.values() if one.id in self._mine]
        if any(rental.is_open for rental in mine):
            self.stream.keep(self._request.process)
        spent = history.spent(self._request.currency, self._clocks.now(), tail_s=TAIL_S)
        self._traffic |= {id: host.traffic for id, host in self.hosts.items()}
        traffic = sum(one.traffic_cost(self._traffic.get(one.id, 0)) for one in mine)
        self._request.spending.rentals = spent + traffic / 1e6
        for rental in mine:
            self._follow(rental)
        self._replan(history)
        for state in self.entries:
            if not self._ending.is_set():
                self._rent_missing(state, history)
                self._post_wait(state, self.stream.history)

    def _follow(self, rental: Rental) -> None:
        """Act on the state of a rental of ours."""
        host = self.hosts.get(rental.id)
        if rental.state == "created" and host is None:
            self._prepare(rental)
        elif rental.state == "ready" and host is not None:
            self._return_idle(rental, host)
        elif rental.state in ("returning", "ended", "void"):
            failed = rental.failure is not None and bool(rental.instance)
            if host is not None or (failed and rental.id not in self._reported):
                self._reported.add(rental.id)
                self._forget(rental, host, failed=failed)
            if rental.state != "returning":
                self._mine.discard(rental.id)
                self._state_of(rental).count_failure(rental)
                self._next_plan = 0.0 if rental.failure else self._next_plan

    def _forget(self, rental: Rental, host: RentedHost | None, *, failed: bool) -> None:
        """End the host of a rental that is given up, and tell the runner why."""
        if host is not None:
            with self.lock:  # first, so that no slot is opened on it any more
                del self.hosts[rental.id]
            host.end()
            self._traffic[rental.id] = host.traffic
        # First, since a run without any machine to wait for ends.
        self._post_wait(self._state_of(rental), self.stream.history)
        why = f"offer {rental.offer} is returned: {failure_of(rental).message}"
        reason = why if failed else rental.why
        self._post(HostLost(host=rental.host, reason=reason, removed=True, hopeless=failed))

    def _prepare(self, rental: Rental) -> None:
        """Begin to make a host of an instance, once it runs and has an address."""
        state, instance = self._state_of(rental), self._reconciler.listed.get(rental.id)
        boots = self._reconciler.providers[rental.account].boots_system
        limits = stage_limits(state.entry.image, boots_system=boots)
        most = want_of(state.entry).max_price
        price = instance.hourly if instance else None
        if most is not None and price is not None and price > most:
            why = f"its price rose to {price / 1e6:.3f} an hour"
            self._fail(rental, "no_capacity", why, hourly=price)
        elif instance is None or instance.state != "running" or not instance.address:
            if self._clocks.since_boot() - self.stream.seen_at(rental) > limits.provision:
                listed = f"; the provider calls it {instance.state}" if instance else ""
                why = f"it did not run within {limits.provision / 60:.0f} min{listed}"
                self._fail(rental, "no_capacity", why)
        else:
            host = RentedHost(
                rental=rental,
                instance=instance,
                entry=state.entry,
                limits=limits,
                key=self._key,
                folder=self._request.folder,
                post=self._post,
                ready=self._record_ready,
                failed=self._record_failed,
                clocks=self._clocks,
            )
            with self.lock:
                self.hosts[rental.id] = host
            host.start()

    def _fail(self, rental: Rental, kind: str, why: str, **listed: int) -> None:
        failure = {"stage": "provision", "kind": kind, "message": why}
        self._renting.give_back(rental, why, failure, **listed)
        self._market.avoid(rental)

    def _return_idle(self, rental: Rental, host: RentedHost) -> None:
        state = self._state_of(rental)
        if host.usage.idle_for() < state.entry.idle:
            return
        if not host.usage.cells:
            state.refused = "no cell could use its last machine"
        self._renting.give_back(rental, f"no cell needed it for {state.entry.idle:g} s")

    def _record_ready(self, host: RentedHost) -> None:
        """Record that the instance is a host; its engine may connect."""
        instance = host.instance
        names = "address", "port", "user", "began", "hourly"
        listed = {name: value for name in names if (value := getattr(instance, name)) is not None}
        self._renting.record_ready(host.rental, facts=host.facts, **listed)
        self._state_of(host.rental).failures.clear()
        self._wake.set()

    def _record_failed(self, host: RentedHost, failure: dict[str, str]) -> None:
        self._renting.give_back(host.rental, failure["message"], failure)
        self._market.avoid(host.rental)
        self._wake.set()

    def _state_of(self, rental: Rental) -> EntryState:
        return next(one for one in self.entries if one.entry.name == rental.entry)

    def _rent_missing(self, state: EntryState, history: RentalHistory) -> None:
        """Rent one machine for an entry, if cells wait for it, it may have more, and one is
        offered."""
        entry, rented = state.entry, state.rented(history)
        now = self._clocks.since_boot()
        coming = sum(one.state in ("intended", "created") for one in rented)
        mine = sum(one.id in self._mine for one in rented)
        if state.refused or state.is_full(rented, mine) or state.due(self._waiting) <= coming:
            return
        if now < state.next_offer:
            return
        state.next_offer = now + TURN_S
        chosen = self._market.best(entry, history, self._clocks.now())
        if chosen is not None:
            self._rent(state, chosen, history)
        elif refusal := self._market.refusal(entry):
            state.give_up(refusal.kind, str(refusal))
        elif not rented:
            state.next_offer = now + self._market.pause_s
            state.found_nothing(self._market.why_none(entry), now)

    def _replan(self, history: RentalHistory) -> None:
        """Rent more machines from now on, if a new plan has more: to end in time, or sooner within
        the budget."""
        now, replan = self._clocks.since_boot(), self._request.replan
        if replan is None or now < self._next_plan:
            return
        self._next_plan = now + REPLAN_S
        market = partial(self._market.ranked, history=history, now=self._clocks.now())
        raise_plans(self._request, replan, self._ledger, self.entries, history, market, now)

    def _step(self, rental: Rental) -> str:
        """How far a machine is that the runner does not know yet; "" for others."""
        host = self.hosts.get(rental.id)
        if rental.state == "intended":
            return "waiting for the provider"
        connected = host is not None and host.usage.is_connected
        if rental.state == "created" or (rental.state == "ready" and not connected):
            return (host and host.step) or "waiting for it to start"
        return ""

    def _rent(self, state: EntryState, chosen: MarketOffer, history: RentalHistory) -> None:
        entry = state.entry
        shortest = state.shortest(self._request.spending.shortest)
        rental = self._market.rental(chosen, entry, self._request, work_s=shortest)
        if problem := self._renting.limits.problem(rental, history, self._clocks.now()):
            state.refused = problem
            return
        self._mine.add(rental.id)
        error = self._renting.rent(
            rental, chosen.provider, chosen.offer, self._market.spec(entry), count=entry.count
        )
        state.waits_for = str(error) if error else ""
        state.looks_since = None
        if error:
            self._market.note(rental, error)
        self._wake.set()  # a list shows it soon

    def _post_wait(self, state: EntryState, history: RentalHistory) -> None:
        """Say what the runner waits for, or that it waits for no further machine."""
        mine = [one for one in state.rented(history) if one.id in self._mine]
        why = state.why_waiting(
            history,
            mine=mine,
            coming=", ".join(sorted({step for one in mine if (step := self._step(one))})),
            waiting=bool(state.due(self._waiting)),
        )
        if why != state.awaited:
            self._post(state.announce(why))
