"""How a race stands: its groups, their configs, and what is to be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.race import RaceStop

from .anytime import AnytimeDifference

Verdict = Literal[
    "leads", "in", "worse", "kept", "stops", "stopped", "brought back", "no result", "does not race"
]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A config in its group."""

    config: str
    verdict: Verdict
    repeats: int  # that have a result here
    of: int  # that the campaign asks for
    difference: AnytimeDifference | RaceStop | None = None  # None for the leader, or without data
    compared_with: str = ""  # the config that it is compared with: the leader, when it was stopped
    active: tuple[CellRecord, ...] = ()  # its pending and running cells
    stopped: int = 0  # its cells that a race stopped

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        one = self.difference
        return {
            "config": self.config,
            "verdict": self.verdict,
            "repeats": self.repeats,
            "of": self.of,
            "samples": one.samples if one else None,
            "compared_with": self.compared_with or None,
            "difference": one.difference if one else None,
            "interval": list(one.interval) if one else None,
            "saved": self.stopped + (len(self.active) if self.verdict == "stops" else 0),
        }


@dataclass(frozen=True, kw_only=True)
class Group:
    """The configs of a model × benchmark."""

    model: str
    benchmark: str
    leader: str  # "" while none has a result
    standings: tuple[Standing, ...]
    note: str = ""  # why it does not race

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {**vars(self), "standings": [one.to_dict() for one in self.standings]}


@dataclass(frozen=True, kw_only=True)
class Race:
    """How a race stands."""

    confidence: float
    comparisons: int  # ordered pairs of configs, over all groups
    groups: tuple[Group, ...]

    def stops(self, by: str) -> Iterator[RaceStop]:
        """What is to be stopped now."""
        for group in self.groups:
            for one in group.standings:
                if one.verdict == "stops" and one.difference is not None:
                    yield RaceStop(
                        model=group.model,
                        config=one.config,
                        benchmark=group.benchmark,
                        leader=one.compared_with,
                        samples=one.difference.samples,
                        difference=one.difference.difference,
                        interval=one.difference.interval,
                        confidence=self.confidence,
                        cells=tuple(str(record.fingerprint) for record in one.active),
                        by=by,
                    )

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "confidence": self.confidence,
            "comparisons": self.comparisons,
            "groups": [group.to_dict() for group in self.groups],
        }
