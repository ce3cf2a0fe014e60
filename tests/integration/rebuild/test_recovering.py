"""Results that a crash left unpublished, or a ledger that is empty beside results."""

from __future__ import annotations

import os
from pathlib import Path

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.layout import Layout
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.recovery.rebuild import adopt_published
from benchfleet.runner.recovery.startup import Recovered, publish_committed
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing import sample_cell
from stage import Stage, cells

from .conftest import VERDICT, claimed, published, states


def committed(ledger: Ledger, layout: Layout, cell: Cell) -> tuple[str, Path]:
    """A result that the ledger took and nobody published: its path, and where it waits."""
    claim = claimed(ledger, cell)
    folder = AttemptFolder(layout.attempt(claim.lease))
    digest = folder.seal(cell, claim.path, VERDICT).digest
    ledger.finish(claim.lease, Outcome(state="success", digest=digest))
    return claim.path, folder.folder


def test_a_committed_result_is_published(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    assert list(publish_committed(ledger, layout)) == [Recovered(path=path)]
    assert (layout.published(path) / "cell.json").exists()
    assert list(publish_committed(ledger, layout)) == []


def test_an_occupied_path_is_reported_every_time_and_delays_no_other(
    ledger: Ledger, layout: Layout
) -> None:
    first, waits = committed(ledger, layout, sample_cell(1))
    second, _ = committed(ledger, layout, sample_cell(2))
    layout.published(first).mkdir(parents=True)
    (layout.published(first) / "mine.txt").touch()
    output = {found.path: found.problem for found in publish_committed(ledger, layout)}
    assert output[second] == ""
    assert f"the sealed result waits in {waits}" in output[first]
    (again,) = publish_committed(ledger, layout)
    assert (again.path, again.problem) == (first, output[first])
    assert os.listdir(layout.published(first)) == ["mine.txt"]


def test_another_result_at_the_public_path_is_reported_too(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    layout.published(path).mkdir(parents=True)
    (layout.published(path) / "cell.json").write_text("{}")
    (found,) = publish_committed(ledger, layout)
    assert "cannot be published" in found.problem


def test_only_a_success_is_published(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    ledger.record(Event(kind="retry_asked", fingerprint=sample_cell().fingerprint))
    assert list(publish_committed(ledger, layout)) == []
    assert not layout.published(path).exists()


def test_a_sealed_attempt_that_the_ledger_refused_stays(ledger: Ledger, layout: Layout) -> None:
    claim = claimed(ledger, sample_cell())
    folder = AttemptFolder(layout.attempt(claim.lease))
    folder.seal(sample_cell(), claim.path, VERDICT)
    ledger.finish(claim.lease, Outcome(state="success", digest="of another attempt"))
    assert list(publish_committed(ledger, layout)) == []
    assert (folder.folder / "cell.json").exists()


def test_an_empty_ledger_beside_results_learns_of_them_and_nothing_runs_again(
    tmp_path: Path,
) -> None:
    first = Stage(tmp_path)
    first.run(cells(3))
    again = Stage(tmp_path)  # its ledger is new
    again.ledger.enroll(cells(1))  # by another machine, say
    end = again.run(cells(4))
    assert [name for _, name in again.engine.requests] == [cells(4)[3].id]
    assert (end.progress.reused, set(again.states().values())) == (3, {"success"})
    (output,) = again.notices_of("warning")
    assert output.message == "entered 3 results of this folder that the ledger did not have"


def test_progress_is_printed_while_a_ledger_takes_long_to_enter_results(
    tmp_path: Path,
) -> None:
    Stage(tmp_path).run(cells(65))
    again = Stage(tmp_path)
    again.ledger.hosted = True
    again.run(cells(65))
    output = "the ledger, to enter results of this folder: {} of 65"
    assert [printed.message for printed in again.notices_of("waiting")] == [
        output.format(n) for n in (0, 64, 65)
    ]


def test_a_result_that_the_ledger_has_as_cancelled_or_of_another_content_is_not_taken_in(
    layout: Layout,
) -> None:
    ledger, changed = MemoryLedger(), sample_cell(1, version="2")
    published(layout, sample_cell(0))
    published(layout, sample_cell(1))
    ledger.enroll([sample_cell(0)])
    ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell(0).fingerprint))
    assert adopt_published(ledger, layout, LocalHost(), [sample_cell(0), changed]).entered == 0
    assert states(ledger) == {sample_cell(0).id: "cancelled"}
