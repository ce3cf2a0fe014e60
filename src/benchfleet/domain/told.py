"""What a runner must know of a campaign whose file it does not have: one event of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .allowed import Allowed
from .event import Event
from .phase import Phase

TOLD = "campaign_told"


@dataclass(frozen=True, kw_only=True)
class Told:
    """A campaign as whoever enrolled it told of it; the newest event counts."""

    name: str
    results: str = ""  # the URL of the place that results go to; "" for the enroller's own folder
    placement: str = ""  # which waiting cells go first, by the policy's name; "" for the default
    phases: tuple[Phase, ...] = ()
    runners: Mapping[str, Allowed] = field(default_factory=dict)  # what each host may run

    def event(self) -> Event:
        """The event that tells it."""
        phases = [phase.to_dict() for phase in self.phases]
        runners = {
            host: {"phases": list(one.phases), "models": list(one.models)}
            for host, one in self.runners.items()
        }
        return Event(kind=TOLD, data={**vars(self), "phases": phases, "runners": runners})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Told:
        """What an event's data say; what a newer benchfleet tells besides is left out."""
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        phases = tuple(Phase.from_dict(phase) for phase in data.get("phases", ()))
        runners = {
            host: Allowed(phases=tuple(one["phases"]), models=tuple(one["models"]))
            for host, one in data.get("runners", {}).items()
        }
        return cls(**{**known, "phases": phases, "runners": runners})


def newest(events: Iterable[Event]) -> Told | None:
    """What was told last; None where nothing was."""
    told = None
    for event in events:
        if event.kind == TOLD:
            told = Told.from_dict(event.data)
    return told
