"""How a campaign's phases and gates stand, as lines and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchfleet.domain.phase import ENDED, Decision
from benchfleet.domain.state import STATES
from benchfleet.ledger.gates import Standing


def lines(standings: Sequence[Standing]) -> Iterator[str]:
    """One line for each phase."""
    if not standings:
        return
    width = max(len(one.phase.name) for one in standings)
    for one in standings:
        counts = [f"{one.states[s]} {s}" for s in STATES if one.states.get(s) and s != "success"]
        rest = f" ({', '.join(counts)})" if counts and one.ended else ""
        yield (
            f"  phase {one.phase.name:<{width}}  {one.state:<6}  "
            f"{one.ended} of {one.total} ended{rest} · {_gate(one)}"
        )


def _gate(one: Standing) -> str:
    if one.decision is not None:
        return decided(one.decision)
    gate = f"gate: {one.phase.gate or ENDED}"
    if not one.held_by:
        return gate
    return f"held by the gate of {', '.join(one.held_by)} · {gate}"


def decided(decision: Decision) -> str:
    """A decision in a sentence."""
    if decision.override:
        return f"gate opened by {decision.by}: {decision.why}"
    numbers = "; ".join(decision.numbers)
    why = " · ".join(part for part in (decision.why, numbers) if part)
    return f"gate {decision.state}: {decision.expression}" + (f" · {why}" if why else "")


def as_json(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """All of it as JSON values."""
    return [
        {
            "phase": one.phase.name,
            "state": one.state,
            "requires": list(one.phase.requires),
            "held_by": list(one.held_by),
            "gate": one.phase.gate,
            "cells": {"total": one.total, **{s: one.states.get(s, 0) for s in STATES}},
            "decision": one.decision
            and {
                **vars(one.decision),
                "numbers": list(one.decision.numbers),
                "cells": dict(one.decision.cells),
            },
        }
        for one in standings
    ]
