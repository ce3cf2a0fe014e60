"""Views show cells in the campaign's order, whatever was run first."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchfleet.campaign.base import Campaign
from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.matrix import Matrix
from benchfleet.status import status_of
from benchfleet.study import Study, open_study
from benchfleet.testing.sample_cells import sample_cell
from benchfleet.verification import Verify


def run_backwards(folder: Path, cells: list[Cell]) -> Study:
    """A study whose cells were run in the other order, and whose results were deleted then."""
    matrix = Matrix(models=(), configs=(), workloads=())
    study = open_study(Campaign(name="study", file=None, results=folder, matrix=matrix))
    with closing(study.open_ledger()) as ledger:
        for cell in reversed(cells):
            ledger.enroll([cell])
            (claim,) = ledger.claim(RunnerId("me"), [cell.fingerprint])
            ledger.finish(claim.lease, Outcome(state="success", digest="lost"))
    return study


def test_views_have_the_campaign_s_order_and_not_that_of_the_ledger(tmp_path: Path) -> None:
    cells = [sample_cell(number) for number in range(4)]
    study = run_backwards(tmp_path, cells)
    names = [cell.workload.benchmark for cell in cells]
    assert [record.path.rpartition("/")[2] for record in study.records(cells)] == names
    assert [path.rpartition("/")[2] for path in status_of(study, cells).missing] == names
    with closing(study.open_ledger()) as ledger:
        found = Verify(study=study, cells=cells, whole=True, quick=True).run(ledger)
    assert [one.path.rpartition("/")[2] for one in found.wrong] == names
