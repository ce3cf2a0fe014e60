"""Rents an instance: records the intent, sends one request, records what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from benchfleet.domain.budget import Spending
from benchfleet.domain.event import Event
from benchfleet.domain.rental import (
    CREATED,
    READY,
    RETURNING,
    VOID,
    Rental,
    RentalHistory,
    rental_event,
)
from benchfleet.providers.base import (
    CreatedBroken,
    CreateUnknown,
    GpuOffer,
    InstanceSpec,
    Provider,
    ProviderAway,
    ProviderError,
)
from benchfleet.rentals.stream import RentalStream

MAX_DELAY_S = 30.0  # between the intent and its request: a frozen process sends nothing later


@dataclass(frozen=True)
class Limits:
    """What may be rented, by all runners of a ledger together."""

    budget: int | None = None  # of `currency`, for all rentals ever and all other attempts
    currency: str = "USD"
    spending: Spending = field(default_factory=Spending)

    def problem(self, rental: Rental, history: RentalHistory, now: float) -> str:
        """Why the budget does not allow one more rental; "" if it does."""
        if self.budget is None:
            return ""
        committed = history.committed(now)
        if set(committed) - {self.currency} or rental.currency != self.currency:
            return f"the budget is in {self.currency}, and rentals are not; use one currency"
        committed_here = committed.get(self.currency, 0) + round(self.spending.attempts * 1e6)
        needs = rental.hourly, rental.reserve
        if committed_here + rental.reserve > self.budget:
            hourly, reserve = (f"{one / 1e6:.3f} {self.currency}" for one in needs)
            remaining = f"{(self.budget - committed_here) / 1e6:.3f} {self.currency}"
            return (
                f"the budget allows no further machine: for one of {hourly}/h {reserve} is "
                f"reserved, and {remaining} is left; raise --budget"
            )
        return ""


@dataclass(frozen=True, kw_only=True)
class Renting:
    """How one process rents."""

    stream: RentalStream
    limits: Limits
    clock: Callable[[], float]  # counts while the machine sleeps
    now: Callable[[], float]  # seconds since the epoch

    def rent(
        self, rental: Rental, provider: Provider, offer: GpuOffer, spec: InstanceSpec, *, count: int
    ) -> ProviderError | None:
        """Rent an instance, or return why not; the stream says how far it came.

        Nothing is rented if `count` rentals of its entry are open, or the budget does not allow it.
        The label of `spec` is replaced by the rental's. Raises LedgerUnreachable.
        """

        def allowed(history: RentalHistory) -> bool:
            same = [one for one in history.open if one.entry == rental.entry]
            return len(same) < count and not self.limits.problem(rental, history, self.now())

        began = self.clock()
        if not self.stream.intend(rental, allowed):
            return None
        if self.clock() - began > MAX_DELAY_S:
            return None  # it becomes void
        label = rental.label(self.stream.history.ledger_id)
        try:
            instance = provider.create(offer, replace(spec, label=label))
        except (CreateUnknown, ProviderAway) as error:
            return error  # a list shows what came of it
        except CreatedBroken as error:
            self._created(rental, error.instance)
            failure = {"stage": "provision", "kind": "instance_stopped", "message": str(error)}
            self._append(
                rental, RETURNING, instance=error.instance, why=str(error), failure=failure
            )
            return error
        except ProviderError as error:
            failure = {"stage": "provision", "kind": error.kind, "message": str(error)}
            self._append(rental, VOID, why=str(error), failure=failure)
            return error
        self._created(rental, instance)
        return None

    def _created(self, rental: Rental, instance: str) -> None:
        """Record the instance. If others gave the rental up meanwhile, it is to be destroyed."""

        def event(history: RentalHistory) -> Event | None:
            current = history.rentals[rental.id]
            if current.state == "intended":
                return rental_event(CREATED, rental.id, instance=instance)
            if current.state in ("void", "ended"):
                why = "it was created after its rental had ended"
                return rental_event(RETURNING, rental.id, instance=instance, why=why)
            return None

        self.stream.append(event)

    def record_ready(self, rental: Rental, **data: Any) -> None:
        """Record that the instance is a host; `data` is what is known of it by now."""

        def event(history: RentalHistory) -> Event | None:
            created = history.rentals[rental.id].state == "created"
            return rental_event(READY, rental.id, **data) if created else None

        self.stream.append(event)

    def give_back(
        self, rental: Rental, why: str, failure: dict[str, Any] | None = None, **listed: Any
    ) -> None:
        """Record that the instance is to be destroyed; the reconciler does it. `listed` is what a
        list says of it that the rental does not have."""
        failed = {"failure": failure} if failure else {}
        self._append(rental, RETURNING, why=why, **failed, **listed)

    def _append(self, rental: Rental, kind: str, **data: Any) -> None:
        def event(history: RentalHistory) -> Event | None:
            state = history.rentals[rental.id].state
            applies = state == "intended" if kind == VOID else state in ("created", "ready")
            return rental_event(kind, rental.id, **data) if applies else None

        self.stream.append(event)
