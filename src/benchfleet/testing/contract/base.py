"""What every part of the ledger contract stands on: a fresh ledger, a clock, and short words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import CellRecord, Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.ledger.base import Ledger
from benchfleet.testing.claims import claim_any
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.sample_cells import sample_cell

LEASE = 60.0
ME, OTHER = RunnerId("me"), RunnerId("other")
SUCCESS = Outcome(
    state="success",
    digest="abc",
    metrics={"overall": 0.5, "tasks": {"a": 1.0}},
    seconds={"load": 1.5},
    host="here",
    device="cpu:0",
)
OOM = Failure(stage="benchmark", kind="oom", message="no memory", retryable=True, trace="…")
FAILED = Outcome(state="failed", failure=OOM)
RETRIED = replace(FAILED, retry_in=10.0)


class LedgerFixture(ABC):
    """A ledger for each test."""

    folder: Path  # a fresh one for each test
    clock: FakeClock
    ledger: Ledger

    @abstractmethod
    def make_ledger(self, clock: Callable[[], float], lease: float) -> Ledger:
        """A fresh, empty ledger."""

    def open_again(self, clock: Callable[[], float], lease: float) -> Ledger:
        """Another handle on the store of `self.ledger`."""
        return self.ledger

    @pytest.fixture(autouse=True)
    def _fresh_ledger(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.clock = FakeClock()
        with closing(self.make_ledger(self.clock, LEASE)) as self.ledger:
            yield

    # What the tests below say often.

    def enroll(self, *cells: Cell) -> None:
        assert self.ledger.enroll(cells) == len(cells)

    def claims(self, limit: int, runner: RunnerId = ME) -> Sequence[Claim]:
        """Up to `limit` free cells, in the order of enrolment."""
        return claim_any(self.ledger, runner, limit)

    def one_claim(self, runner: RunnerId = ME) -> Claim:
        (claim,) = self.claims(1, runner)
        return claim

    def running_cell(self) -> Claim:
        self.enroll(sample_cell())
        return self.one_claim()

    def record_of(self, fingerprint: str) -> CellRecord:
        (record,) = self.ledger.cells(fingerprints=[fingerprint])
        return record

    def only_record(self) -> CellRecord:
        (record,) = self.ledger.cells()
        return record

    def order_of(self, *candidates: str, limit: int = 100) -> list[str]:
        """Which of these a claim hands out, in its order; of all pending ones where none are
        named."""
        pending = [record.fingerprint for record in self.ledger.cells(states=["pending"])]
        claims = self.ledger.claim(ME, candidates or pending, limit)
        return [claim.lease.fingerprint for claim in claims]

    def kinds(self, fingerprint: str) -> list[str]:
        return [event.kind for event in self.ledger.events() if event.fingerprint == fingerprint]
