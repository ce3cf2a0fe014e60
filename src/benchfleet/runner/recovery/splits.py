"""Restores the splits of cells whose parts have results that a ledger did not know."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.part import Part, Split, whole_of
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.parts import parts_of
from benchfleet.runner.recovery.adopt import claims_of


def restore_splits(ledger: Ledger, runner: RunnerId, cells: Iterable[Cell]) -> None:
    """Split the cells again that some of these are parts of, so that a run asks only for the other
    parts. Left as they are: cells that are split, that have ended, or that another runner holds.

    If parts of several splits of one cell are there, the last split counts.
    """
    parts: dict[str, list[Cell]] = {}
    cells = list(cells)
    ending = {cell.fingerprint for cell in cells}
    for cell in cells:
        if cell.part is not None:
            parts.setdefault(whole_of(cell).fingerprint, []).append(cell)
    for whole in parts_of(ledger, parts):
        del parts[whole]
    if not parts:
        return
    ledger.enroll(whole_of(cell) for cell, *_ in parts.values())
    for claims in claims_of(ledger, runner, parts):
        for claim in claims:
            lease = claim.lease
            last = _last_split(parts.pop(lease.fingerprint))
            split = Split.around(lease.fingerprint, lease.token, last)
            ledger.record(split.event(split.cells(claim.cell)))
            if lease.fingerprint not in ending:  # else nobody needs its other parts
                ledger.enroll(split.cells(claim.cell))
        ledger.release([claim.lease for claim in claims], "its parts have results")


def _last_split(cells: Collection[Cell]) -> list[Part]:
    """Those of the parts that are of the last split."""
    parts = [cell.part for cell in cells if cell.part is not None]
    last = max((part.attempt, part.count, part.of) for part in parts)
    return [part for part in parts if (part.attempt, part.count, part.of) == last]
