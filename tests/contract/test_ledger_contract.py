"""The ledger contract over every back-end."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite import SqliteLedger
from benchfleet.testing import LedgerContract


class TestMemoryLedger(LedgerContract):
    def make_ledger(self, clock: Callable[[], float], lease: float) -> MemoryLedger:
        return MemoryLedger(clock=clock, lease=lease)


class TestSqliteLedger(LedgerContract):
    def make_ledger(self, clock: Callable[[], float], lease: float) -> SqliteLedger:
        return self.open_again(clock, lease)

    def open_again(self, clock: Callable[[], float], lease: float) -> SqliteLedger:
        return SqliteLedger(self.folder / "ledger.db", campaign="study", clock=clock, lease=lease)
