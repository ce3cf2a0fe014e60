"""Cells that are ended by results which are there already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.errors import ResultsError
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.publish import Moves
from benchfleet.runner.recovery.adopt import Ended, finish_cells
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell

ME = RunnerId("me")


class LateLedger(MemoryLedger):
    """Gives claims with its next push, as a hosted repository does."""

    hosted = True

    def __init__(self) -> None:
        super().__init__()
        self.pushed = False

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        pushed, self.pushed = self.pushed, False
        return super().claim(runner, candidates, limit) if pushed else ()


def test_claims_that_come_with_a_later_push_are_waited_for_and_held_cells_are_left() -> None:
    ledger, cells = LateLedger(), [sample_cell(number) for number in range(3)]
    ledger.enroll(cells)
    ledger.pushed = True
    (other,) = claim_any(ledger, RunnerId("other"))
    pauses: list[float] = []

    def push(seconds: float) -> None:
        pauses.append(seconds)
        ledger.pushed = True

    def seal(claim: Claim, name: str) -> Ended:
        ended.append(claim.path)
        return Outcome(state="success", digest=name), None

    ended: list[str] = []
    found = {str(cell.fingerprint): cell.id for cell in cells}
    seen: list[tuple[int, int]] = []
    held = finish_cells(
        ledger, ME, found, seal, pause=push, seen=lambda *output: seen.append(output)
    )
    assert held == [other.path]
    assert seen == [(0, 3), (2, 3)]
    assert sorted(ended) == sorted({cell.id for cell in cells} - {other.path})
    states = {record.path: record.state for record in ledger.cells()}
    assert states == {**dict.fromkeys(ended, "success"), other.path: "running"}
    assert pauses


def test_a_result_that_cannot_be_published_keeps_no_other_from_it() -> None:
    ledger, cells = MemoryLedger(), [sample_cell(number) for number in range(3)]
    ledger.enroll(cells)
    published: list[str] = []

    def seal(claim: Claim, name: str) -> Ended:
        return Outcome(state="success", digest=name), (Path(name), Path(claim.path))

    def publish_all(moves: Moves) -> list[ResultsError | None]:
        published.extend(str(public) for _, public in moves)
        return [ResultsError("in the way"), None, None]

    results = {str(cell.fingerprint): cell.id for cell in cells}
    with pytest.raises(ResultsError, match="in the way"):
        finish_cells(ledger, ME, results, seal, publish_all=publish_all)
    assert published == [cell.id for cell in cells]
    assert {record.state for record in ledger.cells()} == {"success"}
