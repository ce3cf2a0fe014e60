"""Every back-end against the model, in random orders of calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings

from benchfleet.ledger.base import Ledger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite import SqliteLedger
from benchfleet.testing.ledger_machine import LEASE, LedgerMachine
from postgres import need_postgres, shared_postgres


class MemoryMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        return MemoryLedger(clock=clock, lease=lease)


class SqliteMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        return SqliteLedger(folder / "ledger.db", campaign="study", clock=clock, lease=lease)

    def open_again(self) -> Ledger:
        self.ledger.close()
        return self.make_ledger(Path(self.folder.name), self.clock, LEASE)


class PostgresMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        need_postgres()
        from benchfleet.ledger.postgres import PostgresLedger

        url = shared_postgres().url()
        return PostgresLedger(url, campaign=folder.name, clock=clock, lease=lease)

    def open_again(self) -> Ledger:
        self.ledger.close()
        return self.make_ledger(Path(self.folder.name), self.clock, LEASE)


def often(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = often(400)
TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = often(200)
TestPostgresMachine = PostgresMachine.TestCase
TestPostgresMachine.settings = often(15)
