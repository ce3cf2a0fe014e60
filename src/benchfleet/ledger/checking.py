"""Whether a ledger holds together: what it says of its cells, and what its history tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchfleet.domain.state import FINAL_STATES
from benchfleet.ledger.base import Ledger


def faults(ledger: Ledger) -> Iterator[str]:
    """What is wrong with it, each with the path of its cell; nothing for a sound one."""
    claims: Counter[str] = Counter()
    finishes: dict[str, dict[str, object]] = {}
    records = list(ledger.cells(whole=True))  # before the events, which tell of these at least
    for event in ledger.events(kinds=["claimed", "finished"]):
        if event.kind == "claimed":
            claims[event.fingerprint] += 1
        else:
            finishes[event.fingerprint] = event.data["outcome"]
    for record in records:
        if record.cell is None or record.cell.fingerprint != record.fingerprint:
            yield f"{record.path}: what it is does not have its fingerprint"
        if claims[record.fingerprint] < record.attempt:
            told = claims[record.fingerprint]
            yield f"{record.path}: begun {record.attempt} times, of which the history tells {told}"
        if record.token < record.attempt:
            yield f"{record.path}: its token {record.token} is below its {record.attempt} attempts"
        ended = record.state in FINAL_STATES and record.state != "cancelled"
        if ended and record.outcome is None:
            yield f"{record.path}: it is {record.state}, without an outcome"
        if record.outcome is not None and record.fingerprint not in finishes:
            yield f"{record.path}: its outcome is not in the history"
