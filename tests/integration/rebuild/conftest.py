"""Two kinds of ledger beside a results tree, and results and claims of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing import FakeClock
from benchfleet.testing.claims import claim_any

ME = RunnerId("me")
VERDICT = Verdict(
    score={"overall": 0.5, "per_sample": [], "tasks": {}, "summary": {}},
    seconds={"load": 1.0},
    provenance={"host": "here", "device": "cpu:0"},
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "study")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Ledger]:
    made: Ledger = (
        MemoryLedger(clock=clock)
        if request.param == "memory"
        else SqliteLedger(tmp_path / "ledger.db", campaign="study", clock=clock)
    )
    with closing(made):
        yield made


def published(layout: Layout, cell: Cell, *, marked: bool = False) -> tuple[str, str]:
    """A result at its public path; that path, and its digest."""
    path = cell.path(marked=marked)
    folder = AttemptFolder(layout.attempts / "made" / cell.fingerprint[:8])
    digest = folder.seal(cell, path, VERDICT).digest
    publish(folder.folder, layout.published(path))
    return path, digest


def claimed(ledger: Ledger, cell: Cell) -> Claim:
    ledger.enroll([cell])
    (claim,) = claim_any(ledger, ME)
    return claim


def states(ledger: Ledger) -> dict[str, str]:
    return {record.path: record.state for record in ledger.cells()}
