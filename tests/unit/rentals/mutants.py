"""Renting with one rule broken on purpose. The stories must catch each of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from benchfleet.domain.rental import ENDED, VOID, Account, Rental, RentalHistory
from benchfleet.providers.base import CreateUnknown, Instance, Provider, ProviderError
from benchfleet.rentals.reconcile import Reconciler, _Seen
from benchfleet.rentals.renting import Renting


class NoIntent(Renting):
    """Creates first, and records afterwards."""

    def rent(self, rental: Rental, provider: Provider, offer: Any, spec: Any, *, count: int) -> Any:
        history = self.stream.read()
        if len(history.open) >= count:
            return None
        label = rental.label(history.ledger_id or "a" * 10)
        try:
            provider.create(offer, replace(spec, label=label))
        except ProviderError:
            return None
        return super().rent(rental, provider, offer, spec, count=count)


class CreateAgain(Renting):
    """Sends the create request again when its answer was lost."""

    def rent(self, rental: Rental, provider: Provider, offer: Any, spec: Any, *, count: int) -> Any:
        error = super().rent(rental, provider, offer, spec, count=count)
        if isinstance(error, CreateUnknown):
            label = rental.label(self.stream.history.ledger_id)
            try:
                self._created(rental, provider.create(offer, replace(spec, label=label)))
            except ProviderError as again:
                return again
        return error


class VoidAtOnce(Reconciler):
    """Believes the first list that lacks an instance that was asked for."""

    def _check(self, rental: Rental, instances: list[Instance], seen: _Seen) -> None:
        if rental.state == "intended" and not instances:
            self._append(rental, VOID, why="no instance was created")
        else:
            super()._check(rental, instances, seen)


class ForgetsLabels(Reconciler):
    """Does not look for instances of rentals that are void or ended."""

    def _take_listed(self, account: Account, id: str, instances: list[Instance]) -> None:
        rental = self.stream.history.rentals.get(id)
        if rental is None or rental.is_open:
            super()._take_listed(account, id, instances)


class BelievesDestroy(Reconciler):
    """Calls an instance gone when the provider took the request to destroy it."""

    def _return(self, rental: Rental, own: Instance | None, seen: _Seen, window: float) -> None:
        self._destroy(rental.account, rental.instance)
        if self._destroying[rental.instance].accepted is not None:
            cost = self._charges(rental)
            self._append(rental, ENDED, ended_at=seen.listing.at, cost=cost, exact=True)


class ReadsFirst(Reconciler):
    """Reads the stream before it asks for lists."""

    def turn(self) -> RentalHistory:
        before = self.stream.read().rentals
        lists = self._lists()
        for account, seen in lists.items():
            provider = self.providers[account]
            for instance in seen.listing.instances:
                if instance.label[-8:] not in before:
                    with suppress(ProviderError):
                        provider.destroy(instance.id)  # it looks like nobody's
        return super().turn()


class AnyAccount(Reconciler):
    """Believes the lists of whatever account the key belongs to."""

    def _lists(self) -> dict[Account, _Seen]:
        lists = {}
        for account, provider in self.providers.items():
            begun = self.clock()
            with suppress(ProviderError):
                lists[account] = _Seen(listing=provider.list("bf-"), begun=begun)
        return lists
