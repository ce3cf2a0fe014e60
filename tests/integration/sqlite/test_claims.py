"""What is enrolled and read, what may be claimed of it, and what a claim costs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

from .conftest import CELLS, ME, open_ledger


def test_an_enrolment_of_many_cells_is_that_of_each(tmp_path: Path) -> None:
    many = [sample_cell(number) for number in range(2500)]
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        assert ledger.enroll(many[::2]) == 1250
        assert ledger.enroll([*many, *many]) == 1250
        wanted = [cell.fingerprint for cell in (*many[::2], *many[1::2])]
        assert [record.fingerprint for record in ledger.cells()] == wanted
        assert ledger.enroll(sample_cell(number, priority=5) for number in range(2500)) == 0
        assert ledger.events()[-1].data == {"new": 0, "changed": 2500}


@pytest.mark.parametrize("step", [1, 2, 3, 499])
def test_few_and_most_cells_are_read_in_the_order_of_enrolment(tmp_path: Path, step: int) -> None:
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        done = {claim.lease.fingerprint for claim in claim_any(ledger, ME, 300)}
        chosen = [cell.fingerprint for cell in CELLS[::step]]
        shown = [record.fingerprint for record in ledger.cells(fingerprints=chosen[::-1])]
        assert shown == chosen
        running = [r.fingerprint for r in ledger.cells(fingerprints=chosen, states=["running"])]
        assert running == [fingerprint for fingerprint in chosen if fingerprint in done]


def test_a_claim_brings_the_cell_as_the_ledger_has_it(tmp_path: Path) -> None:
    first = sample_cell()
    renamed = replace(first, model=replace(first.model, name="another name"), priority=7)
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll([first])
        ledger.enroll([renamed])
        (claim,) = claim_any(ledger, ME)
        assert (claim.cell.model.name, claim.cell.priority) == ("tiny", 7)
        ledger.release([claim.lease], "to be claimed again")
        ledger.enroll([replace(first, priority=7)])
        assert claim_any(ledger, ME)[0].cell.to_dict() == claim.cell.to_dict()


def steps_of_a_claim(ledger: SqliteLedger, candidates: Sequence[str]) -> int:
    """The instructions that SQLite runs for one claim, counted in hundreds."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    ledger._connection.set_progress_handler(count, 100)
    claims = ledger.claim(ME, candidates)
    ledger._connection.set_progress_handler(None, 0)
    assert claims
    ledger.release([claim.lease for claim in claims], "measured")
    return steps


def test_a_claim_costs_the_same_however_many_cells_there_are(tmp_path: Path) -> None:
    costs = []
    for size in (100, 3000):
        with closing(open_ledger(tmp_path / f"{size}.db")) as ledger:
            ledger.enroll([sample_cell(n) for n in range(size)])
            candidates = [sample_cell(n).fingerprint for n in range(32)]
            costs.append(steps_of_a_claim(ledger, candidates))
    assert costs[1] <= costs[0] + 3
