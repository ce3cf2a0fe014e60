"""A ledger made again from published results."""

from __future__ import annotations

import shutil

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.runner.recovery.rebuild import rebuild
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.testing import FakeClock, sample_cell

from .conftest import claimed, published, states


def test_a_marked_result_without_its_twin_keeps_its_path(ledger: Ledger, layout: Layout) -> None:
    """The twin held the plain path and failed, so nothing of it was published."""
    cell = sample_cell(version="2")
    path, digest = published(layout, cell, marked=True)
    output = rebuild(ledger, layout, LocalHost())
    assert (output.entered, output.refused) == (1, ())
    assert states(ledger) == {path: "success"}
    (record,) = ledger.cells()
    assert record.outcome is not None
    assert (record.outcome.digest, record.outcome.host) == (digest, "here")
    assert record.outcome.metrics["overall_score"] == 0.5
    ledger.enroll([sample_cell(version="1")])
    assert states(ledger)[cell.path(marked=False)] == "pending"


def test_rebuilding_again_changes_nothing(ledger: Ledger, layout: Layout) -> None:
    published(layout, sample_cell())
    rebuild(ledger, layout, LocalHost())
    before = list(ledger.cells()), list(ledger.events())
    output = rebuild(ledger, layout, LocalHost())
    assert (output.entered, output.unchanged, output.refused) == (0, 1, ())
    assert (list(ledger.cells()), list(ledger.events())) == before


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(state="failed"),
        Outcome(state="partial"),
        Outcome(state="failed", retry_in=3600.0),
    ],
    ids=["failed", "partial", "backing off"],
)
def test_a_published_result_is_more_than_an_older_failure(
    ledger: Ledger, layout: Layout, outcome: Outcome
) -> None:
    path, _ = published(layout, sample_cell())
    ledger.finish(claimed(ledger, sample_cell()).lease, outcome)
    assert rebuild(ledger, layout, LocalHost()).entered == 1
    assert states(ledger) == {path: "success"}


def test_a_published_result_of_a_cancelled_cell_is_taken(ledger: Ledger, layout: Layout) -> None:
    path, _ = published(layout, sample_cell())
    ledger.enroll([sample_cell()])
    ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell().fingerprint))
    assert rebuild(ledger, layout, LocalHost()).entered == 1
    assert states(ledger) == {path: "success"}


def test_a_lease_that_ran_out_is_taken_over_and_a_live_one_is_left_out_by_name(
    ledger: Ledger, layout: Layout, clock: FakeClock
) -> None:
    path, _ = published(layout, sample_cell())
    claimed(ledger, sample_cell())
    output = rebuild(ledger, layout, LocalHost())
    assert output.entered == 0
    assert [(p, "another runner holds" in why) for p, why in output.refused] == [(path, True)]
    assert states(ledger) == {path: "running"}
    clock.advance(61)
    assert rebuild(ledger, layout, LocalHost()).entered == 1
    assert states(ledger) == {path: "success"}


def test_a_success_with_another_result_is_left_out_by_name(ledger: Ledger, layout: Layout) -> None:
    path, _ = published(layout, sample_cell())
    ledger.finish(claimed(ledger, sample_cell()).lease, Outcome(state="success", digest="other"))
    output = rebuild(ledger, layout, LocalHost())
    assert output.unchanged == 0
    assert output.refused == ((path, "the ledger has another result for this cell"),)


def test_a_place_that_the_ledger_gave_to_another_cell_is_left_out_alone(
    ledger: Ledger, layout: Layout
) -> None:
    path, _ = published(layout, sample_cell(1, version="2"))
    good, _ = published(layout, sample_cell(2))
    ledger.enroll([sample_cell(1, version="1")])
    output = rebuild(ledger, layout, LocalHost())
    assert output.refused == ((path, "the ledger gave this place to another cell"),)
    assert states(ledger) == {path: "pending", good: "success"}


def test_a_result_inside_another_one_is_left_out_alone(ledger: Ledger, layout: Layout) -> None:
    whole, repeat = sample_cell(version="1"), sample_cell(version="2", repeats=True, repeat=1)
    outer, _ = published(layout, whole)
    inner, _ = published(layout, repeat)
    output = rebuild(ledger, layout, LocalHost())
    assert [path for path, _ in output.refused] == [inner]
    assert states(ledger) == {outer: "success"}


def test_a_folder_that_was_copied_or_moved_is_left_out_alone(
    ledger: Ledger, layout: Layout
) -> None:
    path, _ = published(layout, sample_cell())
    copy = layout.root / "tiny" / "dense" / "copy"
    shutil.copytree(layout.published(path), copy)
    output = rebuild(ledger, layout, LocalHost())
    moved = f"it was published as {path!r}, and was moved since"
    assert output.refused == (("tiny/dense/copy", moved),)
    assert states(ledger) == {path: "success"}
