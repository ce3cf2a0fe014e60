"""The order that opens a gate regardless of its numbers."""

from __future__ import annotations

from benchfleet.domain.phase import GATE_EVENTS, GateDecision, newest_decisions
from benchfleet.ledger.base import Ledger
from benchfleet.orders.base import Origin
from benchfleet.study import Study


def override(study: Study, ledger: Ledger, phase: str, why: str, origin: Origin) -> GateDecision:
    """Open the gate of a phase of the campaign; the ledger records who did so and why."""
    study.record_campaign(ledger)
    before = newest_decisions(ledger.events(kinds=GATE_EVENTS)).get(phase)
    declared = next(one for one in study.campaign.phases if one.name == phase)
    decision = GateDecision(
        phase=phase,
        state="opened",
        expression=declared.gate or (before.expression if before else ""),
        why=why,
        numbers=before.numbers if before else (),
        by=origin.by,
        override=True,
    )
    event = decision.event()
    ledger.record(type(event)(kind=event.kind, data={**event.data, **origin.data()}))
    return decision
