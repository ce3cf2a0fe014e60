"""Which phases are open, as a ledger's events say."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.campaign_record import CampaignRecord, newest_record
from benchfleet.domain.phase import (
    GateDecision,
    Phase,
    blocking_phases,
    gate_reset,
    may_run,
    newest_decisions,
)

E0, E1 = Phase(name="e0", gate="score > 0"), Phase(name="e1", requires=("e0",))
PHASES = (E0, E1)
OPENED = GateDecision(
    phase="e0", state="opened", numbers=("score = 1",), by="lab", cells={"success": 2}
)


def test_a_decision_is_what_its_event_says() -> None:
    event = replace(OPENED.event(), at=12.0)
    assert newest_decisions([event]) == {"e0": replace(OPENED, at=12.0)}
    assert event.kind == "gate_opened"


def test_the_newest_word_on_a_gate_counts() -> None:
    closed = replace(OPENED, state="closed", why="too low")
    events = [OPENED.event(), closed.event()]
    assert newest_decisions(events)["e0"].state == "closed"
    assert newest_decisions([*events, OPENED.event()])["e0"].state == "opened"
    assert newest_decisions([*events, gate_reset("e0", "me")]) == {}


def test_a_phase_may_run_once_the_gates_that_it_requires_are_open() -> None:
    assert may_run("e0", PHASES, {})
    assert not may_run("e1", PHASES, {})
    assert blocking_phases(E1, {}) == ("e0",)
    assert may_run("e1", PHASES, {"e0": OPENED})
    assert not may_run("e1", PHASES, {"e0": replace(OPENED, state="closed")})


def test_a_phase_goes_on_behind_its_own_closed_gate_unless_a_critical_cell_failed() -> None:
    closed = replace(OPENED, state="closed")
    assert may_run("e0", PHASES, {"e0": closed})
    assert not may_run("e0", PHASES, {"e0": replace(closed, critical="a/dense/p1")})
    assert may_run("e0", PHASES, {"e0": replace(OPENED, override=True, critical="a/dense/p1")})


def test_cells_of_no_phase_and_of_one_that_is_gone_may_always_run() -> None:
    assert may_run("", PHASES, {})
    assert may_run("gone", PHASES, {})


def test_phases_are_recorded_with_the_campaign() -> None:
    output = CampaignRecord(name="study", phases=PHASES)
    assert newest_record([output.event()]) == output
