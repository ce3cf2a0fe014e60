"""A run puts its results to the campaign's place, and loses none of them on the way."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import STORED
from benchfleet.domain.part import Split
from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.results.cache import ResultCache
from benchfleet.results.disk import digest_of
from benchfleet.results.layout import CELL, Layout
from benchfleet.results.publish import publish
from benchfleet.results.stores.base import ResultStore
from benchfleet.results.stores.folder import FolderStore
from benchfleet.results.transfer import upload
from benchfleet.results.transfer.targets import CacheTarget, StoreTarget
from benchfleet.results.transfer.upload import Uploader
from benchfleet.results.upload_queue import Entry, UploadQueue
from benchfleet.testing.claims import claim_any
from benchfleet.testing.clock import FakeClock
from benchfleet.testing.sample_cells import sample_cell
from stores import seal


class Lab(ResultStore):
    """A ledger, a results folder and a place that may be away."""

    def __init__(self, folder: Path) -> None:
        self.ledger = MemoryLedger(clock=FakeClock(), lease=60)
        self.layout = Layout(folder / "results")
        (folder / "srv").mkdir()
        self.inside = FolderStore(f"file://{folder}/srv", "study")
        self.display_url = self.inside.display_url
        self.away: ResultsError | None = None
        self.puts: list[str] = []
        self.notices: queue.SimpleQueue[str] = queue.SimpleQueue()

    def put(self, folder: Path, path: str, digest: str) -> None:
        if self.away:
            raise self.away
        self.puts.append(path)
        self.inside.put(folder, path, digest)

    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        if self.away:
            raise self.away
        return self.inside.digests(paths)

    def fetch(self, paths: Collection[str], into: Path) -> None:
        self.inside.fetch(paths, into)

    def remove(self, path: str) -> None:
        self.inside.remove(path)

    def uploader(self) -> Uploader:
        target = StoreTarget(self.ledger, self.layout, self, host="lab1")
        return Uploader(self.ledger, self.layout, target, notify=self.notices.put)

    def finish(
        self, number: int, uploader: Uploader | None = None, *, cell: Cell | None = None
    ) -> str:
        """Run a cell to its end; with a sender its result becomes public."""
        cell = cell or sample_cell(number)
        self.ledger.enroll([cell])
        [claim] = self.ledger.claim(RunnerId("me"), [cell.fingerprint], 1)
        folder = self.layout.attempt(claim.lease)
        digest = seal(folder, cell, path=claim.path)
        self.ledger.finish(claim.lease, Outcome(state="success", digest=digest))
        if uploader:
            uploader.publish_all([(folder, self.layout.published(claim.path))])
        return claim.path

    def finish_split(self) -> tuple[str, list[str]]:
        """Run two parts of a cell and the cell; all results are here. Its path, and theirs."""
        whole, early, late = sample_cell(9), self.uploader(), self.uploader()
        self.ledger.enroll([whole])
        [claim] = claim_any(self.ledger, RunnerId("me"))
        split = Split.evenly(whole.fingerprint, claim.lease.attempt, claim.lease.token, 2)
        parts = split.cells(whole)
        self.ledger.record(split.event(parts))
        first = self.finish(0, early, cell=parts[0])
        assert early.upload()
        assert self.stored() == [first]
        paths = [first, self.finish(0, late, cell=parts[1])]
        folder = self.layout.attempt(claim.lease)
        digest = seal(folder, whole, path=claim.path, provenance={"parts": [{}, {}]})
        self.ledger.finish(claim.lease, Outcome(state="success", digest=digest))
        late.publish_all([(folder, self.layout.published(claim.path))])
        assert late.upload()
        return claim.path, paths

    def stored(self) -> list[str]:
        return [str(event.data["path"]) for event in self.ledger.events(kinds={STORED})]


def test_parts_of_a_cell_with_a_result_leave_the_store_and_the_queue(lab: Lab) -> None:
    """One part was there before; the other one was only queued, and is never sent."""
    whole, (first, second) = lab.finish_split()
    assert lab.stored() == [first, whole]
    assert lab.puts == [first, whole]
    assert [*lab.digests([whole, first, second])] == [whole]
    assert lab.uploader().queued == 0


def end(uploader: Uploader) -> None:
    """Wait until it has sent what it can."""
    uploader.stop()
    while not uploader.ended:
        threading.Event().wait(0.01)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_published_result_is_uploaded_and_reported_once(lab: Lab) -> None:
    uploader = lab.uploader()
    paths = [lab.finish(number, uploader) for number in range(3)]
    assert uploader.upload()
    assert sorted(lab.stored()) == sorted(paths) == sorted(lab.digests(paths))
    assert uploader.upload()
    assert uploader.queued == 0
    assert len(lab.puts) == 3


def test_what_could_not_be_put_goes_first_the_next_time(lab: Lab) -> None:
    lab.away = StoreUnreachable("the lab is dark")
    uploader = lab.uploader()
    path = lab.finish(0, uploader)
    assert not uploader.upload()
    assert (uploader.queued, uploader.problem) == (1, "the lab is dark")
    lab.away = None
    again = lab.uploader()
    again.start()
    end(again)
    assert lab.stored() == [path]
    assert again.queued == 0


def test_an_upload_error_is_reported_once_while_the_run_goes_on(lab: Lab) -> None:
    lab.away = StoreUnreachable("the lab is dark")
    uploader = lab.uploader()
    uploader.start()
    lab.finish(0, uploader)
    assert lab.notices.get(timeout=60) == "uploads fail and are retried: the lab is dark"
    lab.away = None
    assert lab.notices.get(timeout=60) == f"uploads to {lab.display_url} work again"
    end(uploader)
    assert lab.notices.empty()


def test_a_store_that_does_not_answer_is_reported_before_the_first_result(lab: Lab) -> None:
    lab.away = StoreUnreachable("the lab is dark")
    uploader = lab.uploader()
    uploader.start()
    assert lab.notices.get(timeout=60) == "uploads fail and are retried: the lab is dark"
    end(uploader)
    assert uploader.problem == "the lab is dark"


def test_a_cache_that_does_not_answer_is_left_to_the_run_to_report(lab: Lab) -> None:
    lab.away = StoreUnreachable("the lab is dark")
    uploader = Uploader(lab.ledger, lab.layout, CacheTarget(lab.layout, ResultCache(lab)))
    uploader.start()
    end(uploader)
    assert uploader.problem == ""


def test_one_result_that_is_refused_does_not_hold_up_the_others(lab: Lab) -> None:
    uploader = lab.uploader()
    paths = [lab.finish(number, uploader) for number in range(2)]

    def put(folder: Path, path: str, digest: str) -> None:
        if path == paths[0]:
            raise ResultsError("no such bucket")
        lab.inside.put(folder, path, digest)

    lab.put = put  # type: ignore[method-assign]
    assert not uploader.upload()
    assert lab.stored() == [paths[1]]
    assert (uploader.queued, uploader.problem) == (1, "no such bucket")


def test_a_result_that_is_published_while_the_queue_is_read_is_uploaded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, uploader = lab.finish(0), lab.uploader()
    [folder] = lab.layout.attempts.glob("*/*")
    digest = digest_of(folder / CELL)
    fingerprint = sample_cell(0).fingerprint
    uploader._queue.add([Entry(fingerprint=str(fingerprint), path=path, digest=digest)])

    def publish_after_the_look(*look: object) -> bool:
        publish(folder, lab.layout.published(path))
        return False

    with monkeypatch.context() as patched:
        patched.setattr(upload, "is_published", publish_after_the_look)
        assert uploader.upload()
    assert not folder.parent.exists()
    assert uploader.upload()
    assert lab.stored() == [path]
    assert uploader.queued == 0


def test_results_that_are_published_during_uploads_are_all_uploaded(lab: Lab) -> None:
    uploader = lab.uploader()
    uploader.start()
    paths = [lab.finish(number, uploader) for number in range(100)]
    end(uploader)
    assert sorted(lab.stored()) == sorted(paths)


def test_a_newer_result_of_a_cell_queued_during_an_upload_stays_queued(lab: Lab) -> None:
    uploader = lab.uploader()
    lab.finish(0, uploader)
    [old] = uploader._queue.entries()

    def put(folder: Path, path: str, digest: str) -> None:
        uploader._queue.add([replace(old, digest="sha256:newer")])

    lab.put = put  # type: ignore[method-assign]
    assert uploader.upload()
    assert [entry.digest for entry in uploader._queue.entries()] == ["sha256:newer"]


def test_a_crash_between_the_commit_and_the_rename_leaves_an_entry_that_waits(lab: Lab) -> None:
    path = lab.finish(0)
    uploader = lab.uploader()
    [folder] = lab.layout.attempts.glob("*/*")
    public = lab.layout.published(path)
    with pytest.raises(OSError, match="power"):
        _publish_and_die(uploader, folder, public)
    assert uploader.upload()
    assert (uploader.queued, lab.stored()) == (1, [])
    uploader.publish_all([(folder, public)])  # as the next start does
    assert uploader.upload()
    assert lab.stored() == [path]


def _publish_and_die(uploader: Uploader, folder: Path, public: Path) -> None:
    with pytest.MonkeyPatch.context() as broken:

        def die(*_: object) -> None:
            raise OSError("power")

        broken.setattr(uploader, "_publish_all", die)
        uploader.publish_all([(folder, public)])


def test_a_result_that_the_ledger_calls_done_no_longer_is_not_put(lab: Lab) -> None:
    uploader = lab.uploader()
    lab.finish(0, uploader)
    [entry] = UploadQueue(lab.layout.outbox).entries()
    UploadQueue(lab.layout.outbox).add([replace(entry, digest="0" * 64)])
    assert uploader.upload()
    assert (uploader.queued, lab.stored()) == (0, [])


def test_what_lay_here_before_the_campaign_had_a_place_goes_there_too(lab: Lab) -> None:
    uploader = lab.uploader()
    path = lab.finish(0, uploader)
    for entry in UploadQueue(lab.layout.outbox).entries():
        UploadQueue(lab.layout.outbox).drop(entry)
    uploader.start()
    end(uploader)
    assert lab.stored() == [path]
