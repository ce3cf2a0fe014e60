"""Compares rentals with what the providers list, and brings both together.

A turn first asks each account for a complete list, then reads the stream. In this order every
listed instance has its intent in what is read: the other way round, an instance that another runner
has just rented would look like nobody's.

Only a list proves something, and only after a while: an instance may be missing from lists for the
first `visible_within_s` after its creation. So nothing is called gone or never created before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchfleet.domain.event import Event
from benchfleet.domain.rental import (
    CREATED,
    ENDED,
    RETURNING,
    VOID,
    Account,
    Rental,
    RentalHistory,
    parse_label,
    rental_event,
)
from benchfleet.providers.base import Instance, Listing, Provider, ProviderError
from benchfleet.rentals.stream import RentalStream

REQUEST_TIMEOUT_S = 60.0  # of a create request
_MAX_PAUSE_S = 60.0  # between two requests to destroy one instance
_DEAD = "its runner died"
_MISSES = 2  # lists without an instance that should be there


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A complete list, and when it was begun by our own clock."""

    listing: Listing
    begun: float


@dataclass
class _DestroyRequest:
    """What this process did to end an instance."""

    first: float  # when it was first sent, by our own clock
    next: float
    pause: float = 5.0
    accepted: float | None = None  # the provider's time of the answer
    missed: float | None = None  # its time of the first list without the instance


@dataclass
class Reconciler:
    """What one process knows of its accounts' instances between turns."""

    stream: RentalStream
    providers: Mapping[Account, Provider]
    clock: Callable[[], float]  # counts while the machine sleeps
    is_owner_dead: Callable[[Rental], bool] = lambda rental: False
    traffic: Callable[[Rental], int] = lambda rental: 0  # bytes, as far as this process knows
    others: tuple[Instance, ...] = ()  # of other ledgers, in the last lists
    problem: str = ""  # why the last turn lacks the list of an account
    listed: dict[str, Instance] = field(default_factory=dict)  # ours in the last lists, by rental
    _destroying: dict[str, _DestroyRequest] = field(default_factory=dict)  # by instance
    _misses: dict[str, int] = field(default_factory=dict)  # by rental

    def turn(self) -> RentalHistory:
        """Ask for lists, read the stream, and act. Raises LedgerUnreachable."""
        lists = self._lists()
        history = self.stream.read()
        self.others = tuple(
            instance
            for seen in lists.values()
            for instance in seen.listing.instances
            if (parse_label(instance.label) or ("", ""))[0] not in ("", history.ledger_id)
        )
        for account, seen in lists.items():
            self._compare(account, seen, history)
        return self.stream.read()

    def _lists(self) -> dict[Account, _Seen]:
        lists, self.problem = {}, ""
        for account, provider in self.providers.items():
            begun = self.clock()
            try:
                if provider.account() == account:  # else the key is another account's
                    lists[account] = _Seen(listing=provider.list("bf-"), begun=begun)
            except ProviderError as error:
                self.problem = str(error)  # a list that failed proves nothing
        return lists

    def _compare(self, account: Account, seen: _Seen, history: RentalHistory) -> None:
        listed: dict[str, list[Instance]] = {}
        for instance in seen.listing.instances:
            ledger_id, id = parse_label(instance.label) or ("", "")
            if id and ledger_id == history.ledger_id:
                listed.setdefault(id, []).append(instance)
        self.listed.update({id: instances[0] for id, instances in listed.items()})
        for id, instances in listed.items():
            self._take_listed(account, id, instances)
        for rental in list(self.stream.history.rentals.values()):
            if rental.account == account and rental.is_open:
                self._check(rental, listed.get(rental.id, []), seen)

    def _take_listed(self, account: Account, id: str, instances: list[Instance]) -> None:
        """Record what a label tells that the stream does not know; destroy a second instance."""
        first = min(instances, key=lambda one: one.id)

        def event(history: RentalHistory) -> Event | None:
            rental = history.rentals.get(id)
            began = {} if first.began is None else {"began": first.began}
            if rental is None:
                lost = {"account": vars(account), "why": "the ledger has no record of it"}
                return rental_event(RETURNING, id, instance=first.id, **lost, **began)
            if rental.state == "intended":
                price = {} if first.hourly is None else {"hourly": first.hourly}
                return rental_event(CREATED, id, instance=first.id, **price, **began)
            if rental.state in ("void", "ended"):
                why = "it appeared after its rental had ended"
                return rental_event(RETURNING, id, instance=first.id, why=why, **began)
            return None

        self.stream.append(event)
        rental = self.stream.history.rentals[id]
        for instance in instances:
            if instance.id != rental.instance:
                self._destroy(account, instance.id)

    def _check(self, rental: Rental, instances: list[Instance], seen: _Seen) -> None:
        provider = self.providers[rental.account]
        own = next((one for one in instances if one.id == rental.instance), None)
        window = provider.visible_within_s
        age = seen.begun - self.stream.seen_at(rental)
        if rental.state == "intended":
            if age >= REQUEST_TIMEOUT_S + window:
                self._append(rental, VOID, why="no instance was created")
        elif rental.state == "returning":
            self._return(rental, own, seen, window)
        elif own is None:
            misses = self._misses.get(rental.id, 0) + (age >= window)
            self._misses[rental.id] = misses
            if misses >= _MISSES and self.is_owner_dead(rental):
                self._append(rental, RETURNING, why=_DEAD)  # its timer ended it, as it should
            elif misses >= _MISSES:
                why = "the provider does not list it any more"
                failure = {"stage": "provision", "kind": "instance_stopped", "message": why}
                self._append(rental, RETURNING, why=why, failure=failure)
        else:
            self._misses.pop(rental.id, None)
            if own.state in ("stopped", "broken"):
                why = f"the provider calls it {own.state}: {own.message}".rstrip(": ")
                failure = {"stage": "provision", "kind": "instance_stopped", "message": why}
                self._append(rental, RETURNING, why=why, failure=failure)
            elif self.is_owner_dead(rental):
                self._append(rental, RETURNING, why=_DEAD)

    def _return(self, rental: Rental, own: Instance | None, seen: _Seen, window: float) -> None:
        request = self._destroying.get(rental.instance)
        if own is not None or request is None:
            self._destroy(rental.account, rental.instance)
            self._destroying[rental.instance].missed = None if own else seen.listing.at
            return
        if request.missed is None:
            request.missed = seen.listing.at
        if seen.begun - request.first < window:
            return
        ended_at = request.missed if request.accepted is None else request.accepted
        charged = self._charges(rental)
        last = self.listed.get(rental.id)
        began = rental.began if last is None or last.began is None else last.began
        seconds = ended_at - (rental.billed_from if began is None else began)
        hourly = rental.hourly if last is None or last.hourly is None else last.hourly
        cost = rental.billing.cost(hourly, seconds) + rental.traffic_cost(self.traffic(rental))
        cost = cost if charged is None else charged
        timed = request.accepted is not None and began is not None
        exact = charged is not None or (timed and not rental.transfer)
        if self._append(rental, ENDED, ended_at=ended_at, cost=cost, exact=exact):
            del self._destroying[rental.instance]

    def _charges(self, rental: Rental) -> int | None:
        try:
            return self.providers[rental.account].charges(rental.instance)
        except ProviderError:
            return None

    def _destroy(self, account: Account, instance: str) -> None:
        now = self.clock()
        request = self._destroying.setdefault(instance, _DestroyRequest(first=now, next=now))
        if now < request.next:
            return
        request.next, request.pause = now + request.pause, min(2 * request.pause, _MAX_PAUSE_S)
        try:
            request.accepted = self.providers[account].destroy(instance) or request.accepted
        except ProviderError:
            request.accepted = None  # an earlier answer was ignored, or this request is too late

    def _append(self, rental: Rental, kind: str, **data: object) -> bool:
        """Append what follows from a rental's state, if it still has it."""

        def event(history: RentalHistory) -> Event | None:
            same = history.rentals[rental.id].state == rental.state
            return rental_event(kind, rental.id, **data) if same else None

        return self.stream.append(event)
