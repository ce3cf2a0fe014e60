"""A plan of which host runs which cells, made by `assign`: one event of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .canonical import content_digest
from .event import Event

ASSIGNED = "assigned"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Cells given to machines, by fingerprint; the newest plan counts, and the forms of all."""

    number: int = 0  # one more than that of the plan before it
    hosts: Mapping[str, Sequence[str]] | None = None  # each machine's cells as declared, in order;
    # None: the event has forms only
    forms: Mapping[str, str] = field(default_factory=dict)  # as declared → as it is run
    settings: Mapping[str, Any] = field(default_factory=dict)  # how it was asked for

    @property
    def name(self) -> str:
        """What files that come of it call it."""
        return content_digest(self._data())[:12]

    def of(self, host: str) -> dict[str, str]:
        """The machine's cells as declared, each with the form in which it is run, in order."""
        return {one: self.forms.get(one, one) for one in (self.hosts or {}).get(host, ())}

    @property
    def cells(self) -> frozenset[str]:
        """All that it gives to anybody, as declared."""
        return frozenset(one for cells in (self.hosts or {}).values() for one in cells)

    def event(self) -> Event:
        """The event that tells it."""
        return Event(kind=ASSIGNED, data=self._data())

    def _data(self) -> dict[str, Any]:
        hosts = None if self.hosts is None else {h: list(one) for h, one in self.hosts.items()}
        return {
            "number": self.number,
            "hosts": hosts,
            "forms": dict(self.forms),
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """What an event's data say; what a newer benchfleet tells besides is left out."""
        fields = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        return cls(**fields)


def plans(events: Iterable[Event]) -> list[Plan]:
    """The plans of these events, the newest last; plans of one number are ordered by name."""
    result = [Plan.from_dict(event.data) for event in events if event.kind == ASSIGNED]
    return sorted(result, key=lambda plan: (plan.number, plan.name))


def newest(plans_in_order: Sequence[Plan]) -> Plan | None:
    """Of the plans in their order the one that counts."""
    return next((plan for plan in reversed(plans_in_order) if plan.hosts is not None), None)


def forms(plans_in_order: Iterable[Plan]) -> dict[str, str]:
    """For each cell that any of the plans speaks of, the form in which it is run."""
    result: dict[str, str] = {}
    for plan in plans_in_order:
        result.update(plan.forms)
    return result
