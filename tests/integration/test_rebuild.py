"""A ledger made again from published results, and results that a crash left unpublished."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.mending.rebuild import rebuild, take_in_found
from benchfleet.runner.mending.recover import Recovered, publish_what_was_committed
from benchfleet.testing import FakeClock, sample_cell
from stage import Stage, cells

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
    (claim,) = ledger.claim(ME, Offer())
    return claim


def states(ledger: Ledger) -> dict[str, str]:
    return {record.path: record.state for record in ledger.cells()}


def test_a_marked_result_without_its_twin_keeps_its_path(ledger: Ledger, layout: Layout) -> None:
    """The twin held the plain path and failed, so nothing of it was published."""
    cell = sample_cell(version="2")
    path, digest = published(layout, cell, marked=True)
    told = rebuild(ledger, layout)
    assert (told.taken, told.refused) == (1, ())
    assert states(ledger) == {path: "success"}
    (record,) = ledger.cells()
    assert record.outcome is not None
    assert (record.outcome.digest, record.outcome.host) == (digest, "here")
    assert record.outcome.metrics["overall_score"] == 0.5
    ledger.enroll([sample_cell(version="1")])
    assert states(ledger)[cell.path(marked=False)] == "pending"


def test_rebuilding_again_changes_nothing(ledger: Ledger, layout: Layout) -> None:
    published(layout, sample_cell())
    rebuild(ledger, layout)
    before = list(ledger.cells()), list(ledger.events())
    told = rebuild(ledger, layout)
    assert (told.taken, told.known, told.refused) == (0, 1, ())
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
    assert rebuild(ledger, layout).taken == 1
    assert states(ledger) == {path: "success"}


def test_a_published_result_of_a_cancelled_cell_is_taken(ledger: Ledger, layout: Layout) -> None:
    path, _ = published(layout, sample_cell())
    ledger.enroll([sample_cell()])
    ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell().fingerprint))
    assert rebuild(ledger, layout).taken == 1
    assert states(ledger) == {path: "success"}


def test_a_lease_that_ran_out_is_taken_over_and_a_live_one_is_left_out_by_name(
    ledger: Ledger, layout: Layout, clock: FakeClock
) -> None:
    path, _ = published(layout, sample_cell())
    claimed(ledger, sample_cell())
    told = rebuild(ledger, layout)
    assert told.taken == 0
    assert [(p, "another runner holds" in why) for p, why in told.refused] == [(path, True)]
    assert states(ledger) == {path: "running"}
    clock.advance(61)
    assert rebuild(ledger, layout).taken == 1
    assert states(ledger) == {path: "success"}


def test_a_success_with_another_result_is_left_out_by_name(ledger: Ledger, layout: Layout) -> None:
    path, _ = published(layout, sample_cell())
    ledger.finish(claimed(ledger, sample_cell()).lease, Outcome(state="success", digest="other"))
    told = rebuild(ledger, layout)
    assert told.known == 0
    assert told.refused == ((path, "the ledger has another result for this cell"),)


def test_a_place_that_the_ledger_gave_to_another_cell_is_left_out_alone(
    ledger: Ledger, layout: Layout
) -> None:
    path, _ = published(layout, sample_cell(1, version="2"))
    good, _ = published(layout, sample_cell(2))
    ledger.enroll([sample_cell(1, version="1")])
    told = rebuild(ledger, layout)
    assert told.refused == ((path, "the ledger gave this place to another cell"),)
    assert states(ledger) == {path: "pending", good: "success"}


def test_a_result_inside_another_one_is_left_out_alone(ledger: Ledger, layout: Layout) -> None:
    whole, repeat = sample_cell(version="1"), sample_cell(version="2", repeats=True, repeat=1)
    outer, _ = published(layout, whole)
    inner, _ = published(layout, repeat)
    told = rebuild(ledger, layout)
    assert [path for path, _ in told.refused] == [inner]
    assert states(ledger) == {outer: "success"}


def test_a_folder_that_was_copied_or_moved_is_left_out_alone(
    ledger: Ledger, layout: Layout
) -> None:
    path, _ = published(layout, sample_cell())
    copy = layout.root / "tiny" / "dense" / "copy"
    shutil.copytree(layout.published(path), copy)
    told = rebuild(ledger, layout)
    moved = f"it was published as {path!r}, and was moved since"
    assert told.refused == (("tiny/dense/copy", moved),)
    assert states(ledger) == {path: "success"}


def other_attention(content: dict[str, Any]) -> None:
    content["cell"]["config"]["attention"] = [[1, 2, 3]]


def no_metrics(content: dict[str, Any]) -> None:
    del content["metrics"]


def no_headline(content: dict[str, Any]) -> None:
    content["metrics"] = {}


def endless_headline(content: dict[str, Any]) -> None:
    content["metrics"]["overall_score"] = float("inf")


def metrics_without_names(content: dict[str, Any]) -> None:
    content["metrics"] = [1.0]


def needs_in_words(content: dict[str, Any]) -> None:
    content["cell"]["need"]["gpus"] = "many"


def provenance_in_words(content: dict[str, Any]) -> None:
    content["provenance"] = "mine"


def files_without_digests(content: dict[str, Any]) -> None:
    content["files"] = ["metrics.json"]


def file_outside(content: dict[str, Any]) -> None:
    content["files"]["../../../../secret"] = "0" * 64


def newer_format(content: dict[str, Any]) -> None:
    content["format"] = 99


def nothing_of_a_cell(content: dict[str, Any]) -> None:
    content["cell"] = None


def other_fingerprint(content: dict[str, Any]) -> None:
    content["fingerprint"] = "0" * 64


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (other_attention, "too many values"),
        (no_metrics, "metrics"),
        (no_headline, "overall_score"),
        (endless_headline, "finite"),
        (metrics_without_names, "not as it must be"),
        (needs_in_words, "whole numbers"),
        (provenance_in_words, "not as it must be"),
        (files_without_digests, "not as it must be"),
        (file_outside, "is no file of its folder"),
        (newer_format, "results format 99"),
        (nothing_of_a_cell, "not as it must be"),
        (other_fingerprint, "fingerprint"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_wrong_cell_json_is_left_out_by_name_and_the_others_are_taken(
    ledger: Ledger, layout: Layout, edit: Callable[[dict[str, Any]], None], why: str
) -> None:
    good, _ = published(layout, sample_cell(1))
    bad, _ = published(layout, sample_cell(2))
    file = layout.published(bad) / "cell.json"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    told = rebuild(ledger, layout)
    assert [path for path, _ in told.refused] == [bad]
    assert why in told.refused[0][1]
    assert states(ledger) == {good: "success"}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\xff"])
def test_a_cell_json_that_is_none_is_left_out_by_name(
    ledger: Ledger, layout: Layout, text: str
) -> None:
    path, _ = published(layout, sample_cell())
    (layout.published(path) / "cell.json").write_bytes(text.encode("latin-1"))
    told = rebuild(ledger, layout)
    assert [path for path, _ in told.refused] == [path]
    assert states(ledger) == {}


# What a crash left between the ledger's commit and the rename


def committed(ledger: Ledger, layout: Layout, cell: Cell) -> tuple[str, Path]:
    """A result that the ledger took and nobody published: its path, and where it waits."""
    claim = claimed(ledger, cell)
    folder = AttemptFolder(layout.attempt(claim.lease))
    digest = folder.seal(cell, claim.path, VERDICT).digest
    ledger.finish(claim.lease, Outcome(state="success", digest=digest))
    return claim.path, folder.folder


def test_a_committed_result_is_published(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    assert list(publish_what_was_committed(ledger, layout)) == [Recovered(path=path)]
    assert (layout.published(path) / "cell.json").exists()
    assert list(publish_what_was_committed(ledger, layout)) == []


def test_an_occupied_place_is_told_every_time_and_holds_up_no_other(
    ledger: Ledger, layout: Layout
) -> None:
    first, waits = committed(ledger, layout, sample_cell(1))
    second, _ = committed(ledger, layout, sample_cell(2))
    layout.published(first).mkdir(parents=True)
    (layout.published(first) / "mine.txt").touch()
    told = {found.path: found.problem for found in publish_what_was_committed(ledger, layout)}
    assert told[second] == ""
    assert f"the sealed result waits in {waits}" in told[first]
    (again,) = publish_what_was_committed(ledger, layout)
    assert (again.path, again.problem) == (first, told[first])
    assert os.listdir(layout.published(first)) == ["mine.txt"]


def test_another_result_at_the_place_is_told_too(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    layout.published(path).mkdir(parents=True)
    (layout.published(path) / "cell.json").write_text("{}")
    (found,) = publish_what_was_committed(ledger, layout)
    assert "cannot be published" in found.problem


def test_only_a_success_is_published(ledger: Ledger, layout: Layout) -> None:
    path, _ = committed(ledger, layout, sample_cell())
    ledger.record(Event(kind="retry_asked", fingerprint=sample_cell().fingerprint))
    assert list(publish_what_was_committed(ledger, layout)) == []
    assert not layout.published(path).exists()


def test_a_sealed_attempt_that_the_ledger_refused_stays(ledger: Ledger, layout: Layout) -> None:
    claim = claimed(ledger, sample_cell())
    folder = AttemptFolder(layout.attempt(claim.lease))
    folder.seal(sample_cell(), claim.path, VERDICT)
    ledger.finish(claim.lease, Outcome(state="success", digest="of another attempt"))
    assert list(publish_what_was_committed(ledger, layout)) == []
    assert (folder.folder / "cell.json").exists()


def test_an_empty_ledger_beside_results_learns_of_them_and_nothing_runs_again(
    tmp_path: Path,
) -> None:
    first = Stage(tmp_path)
    first.run(cells(3))
    again = Stage(tmp_path)  # its ledger is new
    again.ledger.enroll(cells(1))  # by another machine, say
    end = again.run(cells(4))
    assert [name for _, name in again.engine.orders] == [cells(4)[3].id]
    assert (end.progress.reused, set(again.states().values())) == (3, {"success"})
    (said,) = again.said("warning")
    assert said.message == "took in 3 results from here that the ledger did not know of"


def test_it_is_said_how_far_a_ledger_is_that_takes_long_to_be_told_of_results(
    tmp_path: Path,
) -> None:
    Stage(tmp_path).run(cells(65))
    again = Stage(tmp_path)
    again.ledger.writers = 2  # type: ignore[attr-defined]  # as a hosted repository
    again.run(cells(65))
    told = "the ledger, to be told of results from here: {} of 65"
    assert [said.message for said in again.said("waiting")] == [told.format(0), told.format(64)]


def test_a_result_that_the_ledger_has_as_cancelled_or_of_another_content_is_not_taken_in(
    layout: Layout,
) -> None:
    ledger, changed = MemoryLedger(), sample_cell(1, version="2")
    published(layout, sample_cell(0))
    published(layout, sample_cell(1))
    ledger.enroll([sample_cell(0)])
    ledger.record(Event(kind="cancel_asked", fingerprint=sample_cell(0).fingerprint))
    assert take_in_found(ledger, layout, [sample_cell(0), changed]).taken == 0
    assert states(ledger) == {sample_cell(0).id: "cancelled"}
