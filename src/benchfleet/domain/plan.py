"""Which machine is to run which cells, as `assign` made it out: one event of the ledger."""

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
    # None: nothing but forms is told
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
        return frozenset(one for given in (self.hosts or {}).values() for one in given)

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
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        return cls(**known)


def plans(events: Iterable[Event]) -> list[Plan]:
    """The plans that were told, the newest last. Two that were made at once have one number, and
    one order all the same, whoever reads them in whatever order."""
    found = [Plan.from_dict(event.data) for event in events if event.kind == ASSIGNED]
    return sorted(found, key=lambda plan: (plan.number, plan.name))


def newest(told: Sequence[Plan]) -> Plan | None:
    """Of the plans in their order the one that counts."""
    return next((plan for plan in reversed(told) if plan.hosts is not None), None)


def forms(told: Iterable[Plan]) -> dict[str, str]:
    """For each cell that any of the plans speaks of, the form in which it is run."""
    found: dict[str, str] = {}
    for plan in told:
        found.update(plan.forms)
    return found
