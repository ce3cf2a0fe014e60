"""The ledger contract over every back-end."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from benchfleet.ledger.base import Ledger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.ledger.sqlite.shared_file import share
from benchfleet.testing import LedgerContract
from postgres import need_postgres, shared_postgres
from repositories import make_bare


class TestMemoryLedger(LedgerContract):
    def make_ledger(self, clock: Callable[[], float], lease: float) -> MemoryLedger:
        return MemoryLedger(clock=clock, lease=lease)


class TestSqliteLedger(LedgerContract):
    def make_ledger(self, clock: Callable[[], float], lease: float) -> SqliteLedger:
        return self.open_again(clock, lease)

    def open_again(self, clock: Callable[[], float], lease: float) -> SqliteLedger:
        return SqliteLedger(self.folder / "ledger.db", campaign="study", clock=clock, lease=lease)


class TestSharedSqliteLedger(TestSqliteLedger):
    """The same in a file that several machines share."""

    def make_ledger(self, clock: Callable[[], float], lease: float) -> SqliteLedger:
        share(self.folder / "ledger.db", {"n1", "n2"})
        return self.open_again(clock, lease)


class TestPostgresLedger(LedgerContract):
    campaign: str

    def make_ledger(self, clock: Callable[[], float], lease: float) -> Ledger:
        need_postgres()
        self.campaign = uuid.uuid4().hex
        return self.open_again(clock, lease)

    def open_again(self, clock: Callable[[], float], lease: float) -> Ledger:
        from benchfleet.ledger.postgres.ledger import PostgresLedger

        url = shared_postgres().url()
        return PostgresLedger(url, campaign=self.campaign, clock=clock, lease=lease)


class TestGitLedger(LedgerContract):
    def make_ledger(self, clock: Callable[[], float], lease: float) -> GitLedger:
        make_bare(self.folder / "lab.git")
        return self.open_again(clock, lease)

    def open_again(self, clock: Callable[[], float], lease: float) -> GitLedger:
        return GitLedger(
            f"git+file://{self.folder}/lab.git",
            campaign="study",
            folder=self.folder / "mirror",
            clock=clock,
            wall=clock,
            lease=lease,
        )
