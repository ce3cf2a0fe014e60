"""A campaign's race: its settings, and the events by which a ledger knows what it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .attempt import CellRecord
from .event import Event
from .humanize import counted

RACE = "race"  # who cancels the cells that it stops
RACE_STOPPED = "race_stopped"
RACE_EVENTS = (RACE_STOPPED, "retry_asked")  # the kinds that `RaceHistory` reads
DEFAULT_CONFIDENCE = 0.95
RaceKey = tuple[str, str, str]  # model, config, benchmark


@dataclass(frozen=True, kw_only=True)
class RaceSettings:
    """The ``race`` of a campaign."""

    confidence: float = DEFAULT_CONFIDENCE  # that no config is stopped wrongly, in all groups
    keep: tuple[str, ...] | None = None  # configs that are never stopped; None: the baseline

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` gives the same settings back."""
        return {
            "confidence": self.confidence,
            "keep": None if self.keep is None else list(self.keep),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RaceSettings:
        keep = value.get("keep")
        return cls(confidence=value["confidence"], keep=None if keep is None else tuple(keep))


@dataclass(frozen=True, kw_only=True)
class RaceStop:
    """What a race stopped, and why."""

    model: str
    config: str
    benchmark: str  # the column of a report: the benchmark with its subset
    leader: str  # the config that it was compared with
    samples: int  # independent samples that both have
    difference: float  # its mean score less that of the leader
    interval: tuple[float, float]  # holds at every look, over all comparisons of the campaign
    confidence: float
    cells: tuple[str, ...]  # fingerprints of those that were pending or running
    by: str = ""  # a host or a person
    at: float = 0.0  # seconds since the epoch by the ledger's clock

    @property
    def key(self) -> RaceKey:
        """What it is about."""
        return self.model, self.config, self.benchmark

    @property
    def finding(self) -> str:
        """``12 points lower than dense (anytime 95 % interval -20 to -4)``."""
        return f"{points(-self.difference)} lower than {self.leader} ({interval_text(self)})"

    def __str__(self) -> str:
        samples, cells = counted(self.samples, "sample"), counted(len(self.cells), "cell")
        return (
            f"{self.model} / {self.config} stopped on {self.benchmark} after {samples}: "
            f"{self.finding}; {cells} cancelled"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {**vars(self), "interval": list(self.interval), "cells": list(self.cells)}

    def event(self) -> Event:
        """The event that records it."""
        return Event(kind=RACE_STOPPED, data={k: v for k, v in self.to_dict().items() if k != "at"})

    @classmethod
    def of_event(cls, event: Event) -> RaceStop:
        """Read an event; fields of a newer benchfleet are ignored."""
        values = {k: v for k, v in event.data.items() if k in cls.__dataclass_fields__}
        low, high = values["interval"]
        return cls(
            **{**values, "interval": (low, high), "cells": tuple(values["cells"])}, at=event.at
        )


def points(difference: float) -> str:
    """A difference of scores from 0 to 1, in percentage points: ``12 points``."""
    text = f"{100 * difference:.3g}"
    return f"{text} point" if text in ("1", "-1") else f"{text} points"


def interval_text(stop: RaceStop) -> str:
    low, high = (f"{100 * bound:.3g}" for bound in stop.interval)
    return f"anytime {100 * stop.confidence:g} % interval {low} to {high}".replace(
        "-", "\N{MINUS SIGN}"
    )


@dataclass(frozen=True, kw_only=True)
class RaceHistory:
    """What races stopped, and what people brought back afterwards."""

    stops: Mapping[RaceKey, RaceStop] = field(default_factory=dict)  # the first, with all cells
    overridden: frozenset[RaceKey] = frozenset()  # somebody asked to retry a cell of it
    stopped_cells: frozenset[str] = frozenset()  # fingerprints; without those to be retried

    @classmethod
    def of(cls, events: Iterable[Event]) -> RaceHistory:
        """Read the events, oldest first."""
        stops: dict[RaceKey, RaceStop] = {}
        overridden: set[RaceKey] = set()
        key_of: dict[str, RaceKey] = {}
        for event in events:
            if event.kind == RACE_STOPPED:
                stop = RaceStop.of_event(event)
                first = stops.get(stop.key, stop)
                cells = tuple(dict.fromkeys((*first.cells, *stop.cells)))
                stops[stop.key] = replace(first, cells=cells)
                key_of.update(dict.fromkeys(stop.cells, stop.key))
            elif event.kind == "retry_asked" and event.fingerprint in key_of:
                overridden.add(key_of.pop(event.fingerprint))
        return cls(stops=stops, overridden=frozenset(overridden), stopped_cells=frozenset(key_of))

    def is_over(self, key: RaceKey) -> bool:
        """Whether a race stopped this config, and nobody brought it back."""
        return key in self.stops and key not in self.overridden

    def is_stopped(self, record: CellRecord) -> bool:
        """Whether a race cancelled the cell, and nobody brought it back; also one `as_skipped`."""
        return record.state in ("cancelled", "skipped") and record.fingerprint in self.stopped_cells

    def as_skipped(self, records: Sequence[CellRecord]) -> list[CellRecord]:
        """The records as people see them: cells that a race cancelled are ``skipped``."""
        return [replace(one, state="skipped") if self.is_stopped(one) else one for one in records]
