"""What a runner must know of a campaign whose file it does not have: one event of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .eligibility import Rule
from .event import Event
from .host_filter import HostFilter
from .notification import NotificationSettings
from .phase import Phase
from .race import RaceSettings
from .suite import Suite

CAMPAIGN_RECORDED = "campaign_told"


@dataclass(frozen=True, kw_only=True)
class CampaignRecord:
    """A campaign for hosts without its file; the newest event counts."""

    name: str
    results: str = ""  # the URL of the place that results go to; "" for the enroller's own folder
    placement: str = ""  # which waiting cells go first, by the policy's name; "" for the default
    phases: tuple[Phase, ...] = ()
    runners: Mapping[str, HostFilter] = field(default_factory=dict)  # what each host may run
    rules: tuple[Rule, ...] | None = None  # that machines are held against; None: the usual ones
    variants: tuple[str, ...] = ()  # names of the models that stand in for others
    suites: tuple[Suite, ...] = ()  # of benchmarks with one score
    notify: NotificationSettings | None = None  # what its workers send messages about
    race: RaceSettings | None = None  # None: every cell runs
    result_cache: str = ""  # the URL of its result cache

    def event(self) -> Event:
        """The event that stores it."""
        phases = [phase.to_dict() for phase in self.phases]
        runners = {
            host: {"phases": list(one.phases), "models": list(one.models)}
            for host, one in self.runners.items()
        }
        rules = None if self.rules is None else [rule.to_dict() for rule in self.rules]
        suites = [suite.to_dict() for suite in self.suites]
        notify = None if self.notify is None else self.notify.to_dict()
        optional: dict[str, Any] = {"rules": rules, "suites": suites, "notify": notify}
        optional["race"] = None if self.race is None else self.race.to_dict()
        optional["variants"] = list(self.variants)
        optional["result_cache"] = self.result_cache
        own = {key: value for key, value in optional.items() if value not in (None, [], "")}
        fields = {key: value for key, value in vars(self).items() if key not in optional}
        return Event(
            kind=CAMPAIGN_RECORDED, data={**fields, "phases": phases, "runners": runners, **own}
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CampaignRecord:
        """Read an event's data; fields of a newer benchfleet are ignored."""
        known_fields = {
            key: value for key, value in data.items() if key in cls.__dataclass_fields__
        }
        phases = tuple(Phase.from_dict(phase) for phase in data.get("phases", ()))
        runners = {
            host: HostFilter(phases=tuple(one["phases"]), models=tuple(one["models"]))
            for host, one in data.get("runners", {}).items()
        }
        rules, notify, race = data.get("rules"), data.get("notify"), data.get("race")
        return cls(
            **{
                **known_fields,
                "phases": phases,
                "runners": runners,
                "rules": None if rules is None else tuple(map(Rule.from_dict, rules)),
                "variants": tuple(data.get("variants", ())),
                "suites": tuple(map(Suite.from_dict, data.get("suites", ()))),
                "notify": None if notify is None else NotificationSettings.from_dict(notify),
                "race": None if race is None else RaceSettings.from_dict(race),
            }
        )


def newest_record(events: Iterable[Event]) -> CampaignRecord | None:
    """The newest record; None without one."""
    record = None
    for event in events:
        if event.kind == CAMPAIGN_RECORDED:
            record = CampaignRecord.from_dict(event.data)
    return record
