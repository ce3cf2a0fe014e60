"""Rented instances: what the ledger knows of each, folded from one stream of events.

All events have the subject `SUBJECT` and are recorded with `after`, so runners agree on their
order: see *Subjects* in `benchfleet.ledger.base`. A rental begins as ``intended``, before the one
request that may create an instance is sent. It ends as ``void`` if nothing was created, or as
``ended`` once a list of the provider proves that the instance is gone.

Amounts are integers: millionths of the currency. Times are seconds since the epoch by the provider.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from .event import Event

SUBJECT = "rentals"
INTENDED, CREATED, READY = "rental_intended", "rental_created", "rental_ready"
RETURNING, ENDED, VOID = "rental_returning", "rental_ended", "rental_void"
SIGNS, SIGN = "rental_signs", "rental_alive"  # signs of life of those who have rentals
KINDS = (INTENDED, CREATED, READY, RETURNING, ENDED, VOID)
RentalState = Literal["intended", "created", "ready", "returning", "ended", "void"]
OPEN: tuple[RentalState, ...] = ("intended", "created", "ready", "returning")

_LABEL = re.compile(r"bf-([a-z2-7]{10})-([a-z2-7]{8})")
_HOUR_S = 3600
_GB = 10**9
TAIL_S = 1200.0  # that an instance may cost on: its cells end in good order, and it is returned


@dataclass(frozen=True, kw_only=True)
class Account:
    """An account at a provider. Lists and requests of another account prove nothing about it."""

    provider: str
    url: str  # base address of the API
    id: str  # the provider's user id, or a digest of the key


@dataclass(frozen=True, kw_only=True)
class Billing:
    """How a provider bills an instance: seconds are rounded up to units, of a minimum."""

    unit_s: int = 1
    minimum_s: int = 0

    def cost(self, hourly: int, seconds: float) -> int:
        """What so many seconds cost at a price an hour, rounded up."""
        units = math.ceil(max(seconds, self.minimum_s, 0.0) / self.unit_s)
        return -(-hourly * units * self.unit_s // _HOUR_S)


@dataclass(frozen=True, kw_only=True)
class Rental:
    """One rental; `id` is part of its instance's label."""

    id: str
    account: Account
    state: RentalState = "intended"
    owner: str = ""  # the runner that uses it
    process: Mapping[str, Any] = field(default_factory=dict)  # of the owner, as it names itself
    installation: str = ""  # has the SSH key
    inventory: str = ""  # the file that named it, on the owner's machine
    entry: str = ""  # of `rent:` in the inventory
    offer: str = ""
    machine: str = ""  # the provider's id of the machine
    gpu: str = ""
    region: str = ""
    vram: int = 0  # bytes for each GPU, as offered
    cell: str = ""  # fingerprint of the cell that it was rented for
    hourly: int = 0  # all that is billed by time
    transfer: int = 0  # for a GB of traffic, in either direction
    currency: str = "USD"
    billing: Billing = field(default_factory=Billing)
    reserve: int = 0  # what it may cost at most, as planned
    instance: str = ""
    began: float | None = None  # billed from then
    address: str = ""
    port: int = 22
    user: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""  # first reason for which it is returned, or is void
    failure: Mapping[str, Any] | None = None
    costs: Mapping[str, int] = field(default_factory=dict)  # of what ended, by instance
    exact: bool = True  # `costs` are by the provider's own times
    intended_at: float = 0.0  # by the ledger's clock

    @property
    def is_open(self) -> bool:
        """Whether it may still cost money."""
        return self.state in OPEN

    @property
    def host(self) -> str:
        """What its machine is called."""
        return f"{self.entry}-{self.id}"

    def label(self, ledger_id: str) -> str:
        """The label or name of its instance."""
        return f"bf-{ledger_id}-{self.id}"

    def traffic_cost(self, traffic: int) -> int:
        """What so many bytes cost, rounded up."""
        return -(-self.transfer * traffic // _GB)

    @property
    def cost(self) -> int:
        """What its ended instances cost: one, unless another appeared late."""
        return sum(self.costs.values())

    def accrued(self, now: float) -> int:
        """What it has cost by `now` (the provider's time) at most, ended instances included."""
        if self.state in ("void", "ended", "intended"):
            return self.cost
        return self.cost + self.billing.cost(self.hourly, now - self.billed_from)

    @property
    def billed_from(self) -> float:
        """When its instance began; the time of its intent if the provider has not said."""
        return self.intended_at if self.began is None else self.began

    def committed(self, now: float) -> int:
        """What must be kept of a budget for it."""
        tail = self.billing.cost(self.hourly, TAIL_S)
        return max(self.accrued(now) + tail, self.reserve) if self.is_open else self.cost

    def intent(self, ledger_id: str) -> Event:
        """The event that it begins with."""
        data = {name: value for name, value in asdict(self).items() if name not in _LATER}
        return Event(kind=INTENDED, fingerprint=SUBJECT, data={**data, "ledger": ledger_id})


_LATER = {  # fields that later events bring; the first one has the others
    *("state", "instance", "began", "address", "port", "user", "facts", "why", "failure", "costs"),
    *("exact", "intended_at"),
}
_CHANGES: Mapping[str, tuple[RentalState, tuple[str, ...]]] = {  # new state, fields of the event
    CREATED: ("created", ("instance", "began", "hourly")),
    READY: ("ready", ("address", "port", "user", "facts", "began", "hourly")),
    RETURNING: ("returning", ("instance", "why", "failure", "began", "hourly")),
    ENDED: ("ended", ()),
    VOID: ("void", ("why", "failure")),
}
_FROM: Mapping[str, tuple[RentalState, ...]] = {
    CREATED: ("intended",),
    READY: ("created",),
    RETURNING: ("created", "ready", "void", "ended"),
    ENDED: ("returning",),
    VOID: ("intended",),
}


def rental_event(kind: str, rental: str, **data: Any) -> Event:
    """An event that changes a rental, by its id."""
    return Event(kind=kind, fingerprint=SUBJECT, data={"id": rental, **data})


def parse_label(label: str) -> tuple[str, str] | None:
    """The ledger's id and the rental's in the label of an instance; None if it is not ours."""
    match = _LABEL.fullmatch(label)
    return (match[1], match[2]) if match else None


@dataclass(frozen=True, kw_only=True)
class RentalCost:
    """What rented machines cost in one currency, from their creation to their end."""

    currency: str
    cost: float
    attempts: float  # of this, the part of attempts; the rest is setup, idle time and return

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)


class RentalHistory:
    """The rentals of a ledger, by id, as its events say."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.rentals: Mapping[str, Rental] = {}
        self.ledger_id = ""  # random, from the first event
        self.last = 0  # number of the last event
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Apply the next event. One that does not fit the rental's state changes nothing."""
        self.last = event.seq
        data = event.data
        self.ledger_id = self.ledger_id or str(data.get("ledger", ""))
        id = str(data["id"])
        before = self.rentals.get(id)
        if event.kind == INTENDED:
            if before is None:
                self._put(_intended(event))
            return
        if before is None and event.kind == RETURNING:  # its record was lost
            before = Rental(id=id, account=Account(**data["account"]), state="ended")
        if before is None or before.state not in _FROM[event.kind]:
            return
        state, names = _CHANGES[event.kind]
        changes = {name: data[name] for name in names if name in data}
        if before.why:  # the first reason stays
            changes.pop("why", None)
            changes.pop("failure", None)
        if event.kind == ENDED:
            # A list from before the end may show an instance again, which then ends twice.
            changes["costs"] = {**before.costs, before.instance: int(data["cost"])}
            changes["exact"] = before.exact and bool(data["exact"])
        self._put(replace(before, state=state, **changes))

    def _put(self, rental: Rental) -> None:
        """Another mapping: who reads the old one in another thread may go on."""
        self.rentals = {**self.rentals, rental.id: rental}

    def of_host(self, host: str) -> Rental | None:
        """The rental whose machine is called so; None if that is no rented machine."""
        rental = self.rentals.get(host.rpartition("-")[2])
        return rental if rental is not None and host == rental.host else None

    @property
    def open(self) -> list[Rental]:
        """The rentals that may still cost money."""
        return [rental for rental in self.rentals.values() if rental.is_open]

    def spent(self, currency: str, now: float, *, tail_s: float = 0.0) -> float:
        """What all rentals have cost by `now`; of open ones, with so many seconds more."""
        costs = (
            one.accrued(now) + (one.billing.cost(one.hourly, tail_s) if one.is_open else 0)
            for one in self.rentals.values()
            if one.currency == currency
        )
        return sum(costs) / 1e6

    def committed(self, now: float) -> dict[str, int]:
        """What all rentals have cost or may cost, by currency."""
        totals: dict[str, int] = {}
        for rental in self.rentals.values():
            amount = rental.committed(now)
            totals[rental.currency] = totals.get(rental.currency, 0) + amount
        return {currency: amount for currency, amount in totals.items() if amount}


def _intended(event: Event) -> Rental:
    own_fields = {one.name for one in fields(Rental)} - _LATER
    values = {name: value for name, value in event.data.items() if name in own_fields}
    values["account"] = Account(**values["account"])
    values["billing"] = Billing(**values["billing"])
    return Rental(**values, intended_at=event.at)
