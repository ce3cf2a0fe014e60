"""Short records of cells for tests."""

from __future__ import annotations

from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell


def record_of(cell: Cell, **changes: Any) -> CellRecord:
    """The ledger's record of the cell after one attempt, which succeeded."""
    fields = {
        "fingerprint": cell.fingerprint,
        "id": cell.id,
        "path": cell.path(marked=False),
        "state": "success",
        "attempt": 1,
        "tries": 1,
        "token": 1,
        "cell": cell,
    }
    return CellRecord(**{**fields, **changes})
