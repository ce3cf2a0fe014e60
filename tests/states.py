"""How many cells of a ledger are in each state."""

from __future__ import annotations

from collections import Counter

from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.base import Ledger


def states(ledger: Ledger) -> Counter[str]:
    """The number of cells by their state; none of a state that no cell has."""
    return Counter(record.state for record in ledger.cells())


def done(ledger: Ledger) -> int:
    """How many cells are in a final state."""
    found = states(ledger)
    return sum(found[state] for state in FINAL_STATES)
