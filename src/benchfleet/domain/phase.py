"""A campaign's phases, and the events by which a ledger knows which of them are open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .cell import Cell
from .event import Event
from .matrix import Rule

GATE_OPENED, GATE_CLOSED, GATE_RESET = "gate_opened", "gate_closed", "gate_forgotten"
GATE_EVENTS = (GATE_OPENED, GATE_CLOSED, GATE_RESET)
ALL_CELLS_ENDED = "every cell has ended"  # what a phase without a gate of its own waits for


@dataclass(frozen=True, kw_only=True)
class Phase:
    """An ordered part of a campaign. Its cells may run once the gates of the phases that it
    requires are open; its own gate is weighed once all of them have ended."""

    name: str
    gate: str = ""  # an expression of `domain.gate`; "" for `ALL_CELLS_ENDED`
    critical: tuple[Rule, ...] = ()  # one of these cells that fails for good closes the gate
    requires: tuple[str, ...] = ()  # phases

    def is_critical(self, cell: Cell) -> bool:
        return any(rule.matches(cell) for rule in self.critical)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only; `from_dict` gives the same phase back."""
        return {
            "name": self.name,
            "gate": self.gate,
            "critical": [
                {axis: list(names) for axis, names in asdict(rule).items() if names}
                for rule in self.critical
            ],
            "requires": list(self.requires),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Phase:
        rules = (
            Rule(**{axis: tuple(names) for axis, names in rule.items()})
            for rule in value["critical"]
        )
        return cls(
            name=value["name"],
            gate=value["gate"],
            critical=tuple(rules),
            requires=tuple(value["requires"]),
        )


@dataclass(frozen=True, kw_only=True)
class GateDecision:
    """What was decided of a phase's gate, by whom and when."""

    phase: str
    state: Literal["opened", "closed"]
    expression: str = ALL_CELLS_ENDED
    why: str = ""
    numbers: tuple[str, ...] = ()
    by: str = ""  # a host or a person
    override: bool = False  # somebody opened it, whatever the numbers say
    critical: str = ""  # the cell whose failure closed it
    at: float = 0.0  # seconds since the epoch by the ledger's clock
    cells: Mapping[str, int] = field(default_factory=dict)  # of the phase, by state

    def __str__(self) -> str:
        if self.override:
            return f"gate opened by {self.by}: {self.why}"
        why = " · ".join(part for part in (self.why, "; ".join(self.numbers)) if part)
        return f"gate {self.state}: {self.expression}" + (f" · {why}" if why else "")

    def event(self) -> Event:
        """The event that records it."""
        data = {**vars(self), "numbers": list(self.numbers), "cells": dict(self.cells)}
        kind = GATE_OPENED if self.state == "opened" else GATE_CLOSED
        return Event(kind=kind, data={k: v for k, v in data.items() if k not in ("at", "state")})


def gate_reset(phase: str, by: str) -> Event:
    """The event by which a gate is undecided again."""
    return Event(kind=GATE_RESET, data={"phase": phase, "by": by})


def newest_decisions(events: Iterable[Event]) -> dict[str, GateDecision]:
    """The newest decision on each gate, by phase; a gate that is undecided has none."""
    newest: dict[str, GateDecision] = {}
    for event in events:
        if event.kind == GATE_RESET:
            newest.pop(event.data["phase"], None)
        elif event.kind in GATE_EVENTS:
            known_fields = {
                k: v for k, v in event.data.items() if k in GateDecision.__dataclass_fields__
            }
            known_fields |= {"numbers": tuple(event.data.get("numbers", ())), "at": event.at}
            state: Literal["opened", "closed"] = "opened" if event.kind == GATE_OPENED else "closed"
            newest[event.data["phase"]] = GateDecision(**{**known_fields, "state": state})
    return newest


def may_run(phase: str, phases: Sequence[Phase], decided: Mapping[str, GateDecision]) -> bool:
    """Whether cells of this phase may be begun. Cells of no phase, or of one that nobody knows
    any more, always may."""
    phase_by_name = {one.name: one for one in phases}
    if phase not in phase_by_name:
        return True
    own = decided.get(phase)
    if own is not None and own.state == "closed" and own.critical:
        return False
    return not blocking_phases(phase_by_name[phase], decided)


def blocking_phases(phase: Phase, decided: Mapping[str, GateDecision]) -> tuple[str, ...]:
    """The phases that it requires and whose gates are not open."""
    return tuple(
        name
        for name in phase.requires
        if (gate := decided.get(name)) is None or gate.state != "opened"
    )
