"""Every back-end against the model, in random orders of calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from benchfleet.ledger.base import Ledger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing.ledger_model import LEASE
from benchfleet.testing.ledger_state_machine import LedgerMachine
from postgres import need_postgres, shared_postgres
from repositories import make_bare

TIMES = int(os.environ.get("LEDGER_TIMES", "1"))  # as many examples; `make soak` asks for more


class MemoryMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        return MemoryLedger(clock=clock, lease=lease)


class SqliteMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        return SqliteLedger(folder / "ledger.db", campaign="study", clock=clock, lease=lease)

    def open_again(self) -> Ledger:
        self.ledger.close()
        return self.make_ledger(Path(self.folder.name), self.clock, LEASE)


class SqliteHandlesMachine(SqliteMachine):
    """Two handles of one file: each is used for a while, and knows what it read before."""

    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        self.other = super().make_ledger(folder, clock, lease)
        return super().make_ledger(folder, clock, lease)

    def open_again(self) -> Ledger:
        self.ledger, self.other = self.other, self.ledger
        return self.ledger

    def teardown(self) -> None:
        if hasattr(self, "other"):
            self.other.close()
        super().teardown()


class PostgresMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        need_postgres()
        from benchfleet.ledger.postgres.ledger import PostgresLedger

        url = shared_postgres().url()
        return PostgresLedger(url, campaign=folder.name, clock=clock, lease=lease)

    def open_again(self) -> Ledger:
        self.ledger.close()
        return self.make_ledger(Path(self.folder.name), self.clock, LEASE)


class _Two:
    """Two installations on one repository that take turns; each sees at once what the other did."""

    def __init__(self, one: GitLedger, two: GitLedger) -> None:
        self.ledgers = [one, two]

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        getattr(self.ledgers[0], verb)  # or it has none

        def call(*values: Any, **named: Any) -> Any:
            self.ledgers.reverse()
            used, other = self.ledgers
            answer = getattr(used, verb)(*values, **named)
            if verb == "cells":
                answer = list(answer)
            elif verb not in ("events", "close"):
                other.pull()
            return answer

        return call

    def close(self) -> None:
        for ledger in self.ledgers:
            ledger.close()


class GitMachine(LedgerMachine):
    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        make_bare(folder / "lab.git")
        return self.opened()

    def opened(self) -> Ledger:
        folder = Path(self.folder.name)
        one, two = (
            GitLedger(
                f"git+file://{folder}/lab.git",
                campaign="study",
                folder=folder / name,
                clock=self.clock,
                wall=self.clock,
                lease=LEASE,
            )
            for name in ("one", "two")
        )
        return _Two(one, two)  # type: ignore[return-value]

    def open_again(self) -> Ledger:
        self.ledger.close()
        return self.opened()


def often(examples: int) -> settings:
    return settings(
        max_examples=examples * TIMES,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = often(30)
TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = often(8)
TestSqliteHandlesMachine = SqliteHandlesMachine.TestCase
TestSqliteHandlesMachine.settings = often(5)
TestPostgresMachine = PostgresMachine.TestCase
TestPostgresMachine.settings = often(4)
TestGitMachine = GitMachine.TestCase
TestGitMachine.settings = often(3)
