"""Five hundred cells, and a ledger of them in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")
CELLS = [sample_cell(number, model=f"model-{number % 7}") for number in range(500)]


def open_ledger(
    path: Path, clock: Callable[[], float] = time.time, sync: Callable[[int], None] = os.fsync
) -> SqliteLedger:
    return SqliteLedger(path, campaign="study", clock=clock, sync=sync)


def filled(path: Path) -> Path:
    """A ledger of all the cells, of which 20 have ended."""
    with closing(open_ledger(path)) as ledger:
        ledger.enroll(CELLS)
        for claim in claim_any(ledger, ME, 20):
            ledger.finish(claim.lease, SUCCESS)
    return path
