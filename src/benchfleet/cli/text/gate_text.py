"""How a campaign's phases and gates stand, as lines and as JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from benchfleet.cli.text.terminal import columns, padded
from benchfleet.domain.humanize import counted
from benchfleet.domain.state import STATES
from benchfleet.ledger.gates import PhaseStatus


def lines(phase_statuses: Sequence[PhaseStatus]) -> Iterator[str]:
    """One line for each phase."""
    if not phase_statuses:
        return
    width = max(columns(one.phase.name) for one in phase_statuses)
    for one in phase_statuses:
        counts = [f"{one.states[s]} {s}" for s in STATES if one.states.get(s) and s != "success"]
        rest = f" ({', '.join(counts)})" if counts and one.ended else ""
        yield (
            f"  phase {padded(one.phase.name, width)}  {one.state:<6}  "
            f"{one.ended} of {one.total} ended{rest} · {one.text}"
        )


def advice(phase_statuses: Sequence[PhaseStatus], words: Callable[[str], str]) -> Iterator[str]:
    """What keeps cells from starting, and what to do; `words` gives another verb's command."""
    for one in phase_statuses:
        name, waiting = one.phase.name, _waiting(phase_statuses, one.phase.name)
        if closed(one):
            begun = f"; not started: {_cells(waiting)}" if waiting else ""
            yield f"the gate of phase {name} is closed{begun}"
            again = f"{words('gate check')} {shlex.quote(name)} --again"
            yield f"evaluate it again after fixing its cells or its condition: {again}"
            yield f"open it anyway: {words('gate override')} {shlex.quote(name)} --reason TEXT"
        elif one.decision is None and waiting and not one.blocking_phases:
            why = f"{one.ended} of its {counted(one.total, 'cell', 'have')} ended"
            begun = f"not started: {_cells(waiting)}"
            yield f"the gate of phase {name} is not open yet ({why}); {begun}"


def closed(one: PhaseStatus) -> bool:
    """Whether its gate was evaluated and does not hold."""
    return one.state == "closed"


def _waiting(phase_statuses: Sequence[PhaseStatus], gate: str) -> list[PhaseStatus]:
    """The phases with cells that cannot start before the gate of this phase opens."""
    gates, waiting = {gate}, []
    for one in phase_statuses:
        if not gates.isdisjoint(one.blocking_phases):
            gates.add(one.phase.name)
            waiting += [one] if one.ended < one.total else []
    return waiting


def _cells(waiting: Sequence[PhaseStatus]) -> str:
    parts = []
    for one in waiting:
        counts = one.total - one.ended
        parts.append(f"{counted(counts, 'cell')} of {one.phase.name}")
    return ", ".join(parts)
