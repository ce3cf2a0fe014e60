"""The process beside the runner that seals and publishes: as it is done here, or done here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.cli.main import main
from benchfleet.domain.attempt import Lease
from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.drafts import Sealed
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish_all
from benchfleet.results.read import damage
from benchfleet.results.read import sealed as content_of
from benchfleet.results.scribe import Scribe
from benchfleet.results.write import AttemptFolder, Sealing, Verdict, seal_all
from benchfleet.testing.samples import sample_cell

CELL = sample_cell()
LEASE = Lease(fingerprint=CELL.fingerprint, attempt=1, token=1, expires_in=60)
SAMPLE = (
    b'{"index": 0, "id": "s0", "columns": {"question": "\\u00bf?"}, "predicted_answer": "yes"}\n'
)


def verdict(*scores: float) -> Verdict:
    score = {"overall": 0.5, "per_sample": list(scores), "tasks": {}, "summary": {"kept": True}}
    return Verdict(score=score, seconds={"benchmark": 1.0}, provenance={"host": "here"})


@pytest.fixture
def scribe() -> Iterator[Scribe]:
    made = Scribe(1)
    while made.ask(os.getpid) == os.getpid():  # until it is up
        os.sched_yield()
    yield made
    made.close()


def attempted(folder: AttemptFolder) -> AttemptFolder:
    folder.hold(SAMPLE)
    folder.append("extra/raw.bin", b"more")
    return folder


def assert_whole(folder: Path, digest: str) -> None:
    content, found = content_of(folder)
    assert (damage(folder, content), found) == ("", digest)


def sealing(folder: AttemptFolder, *scores: float, cell: Cell = CELL) -> Sealing:
    return Sealing(folder=folder, cell=cell, path=cell.id, verdict=verdict(*scores))


def digest_of(sealed: Sealed | Exception) -> str:
    assert isinstance(sealed, Sealed)
    return sealed.digest


def test_what_is_sealed_there_is_what_would_be_sealed_here(scribe: Scribe, tmp_path: Path) -> None:
    digests = []
    for name in ("here", "there"):
        layout = Layout(tmp_path / name)
        folder = attempted(AttemptFolder(layout.attempt(LEASE)))
        (sealed,) = (seal_all if name == "here" else scribe.seal_all)([sealing(folder, 0.5)])
        digests.append(digest_of(sealed))
        moves = [(folder.folder, layout.published(CELL.id))]
        assert (publish_all if name == "here" else scribe.publish_all)(moves) == [None]
        assert_whole(layout.published(CELL.id), digests[-1])
        assert not folder.folder.parent.exists()
    assert digests[0] == digests[1]


def test_of_several_each_has_its_own_answer_wherever_it_was_sealed(
    scribe: Scribe, tmp_path: Path
) -> None:
    layout = Layout(tmp_path)
    leases = [replace(LEASE, token=number) for number in range(1, 5)]
    folders = [AttemptFolder(layout.attempt(lease)) for lease in leases]
    for folder in folders[:3]:
        folder.hold(SAMPLE)
    folders[3].record(SAMPLE)  # in a file already: sealed here
    folders[3].hold(SAMPLE.replace(b'"index": 0', b'"index": 1'))
    scores = [(0.5,), (0.5, 0.5), (0.75,), (0.5, 1.0)]
    asked = [sealing(folder, *of) for folder, of in zip(folders, scores, strict=True)]
    asked = [asked[0], asked[3], asked[1], asked[2]]
    found = scribe.seal_all(asked)
    assert "2 samples were scored, and 1 were recorded" in str(found[2])
    assert isinstance(found[2], ValueError)
    for one, sealed in zip(asked, found, strict=True):
        if not isinstance(sealed, Exception):
            assert_whole(one.folder.folder, sealed.digest)
    assert len({digest_of(found[place]) for place in (0, 1, 3)}) == 3


def test_a_public_path_that_is_occupied_is_told_of_alone(scribe: Scribe, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    leases = [replace(LEASE, fingerprint=sample_cell(n).fingerprint) for n in (0, 1)]
    folders = [attempted(AttemptFolder(layout.attempt(lease))) for lease in leases]
    sealed = scribe.seal_all([sealing(folder, 0.5) for folder in folders])
    layout.published("m/c/taken").mkdir(parents=True)
    (layout.published("m/c/taken") / "mine.txt").write_text("here first")
    paths = ("m/c/taken", "m/c/free")
    wrong, right = scribe.publish_all(
        [
            (folder.folder, layout.published(path))
            for folder, path in zip(folders, paths, strict=True)
        ]
    )
    assert isinstance(wrong, ResultsError)
    assert right is None
    assert_whole(layout.published("m/c/free"), digest_of(sealed[1]))
    assert_whole(folders[0].folder, digest_of(sealed[0]))


def test_a_process_that_is_gone_is_told_once_and_then_done_without(
    scribe: Scribe, tmp_path: Path
) -> None:
    os.kill(scribe.ask(os.getpid), signal.SIGKILL)
    folder = attempted(AttemptFolder(Layout(tmp_path).attempt(LEASE)))
    (gone,) = scribe.seal_all([sealing(folder, 0.5)])
    assert isinstance(gone, OSError)
    assert "the process that writes results ended" in str(gone)
    assert digest_of(scribe.seal_all([sealing(folder, 0.5)])[0])
    assert scribe.ask(os.getpid) == os.getpid()


def test_a_process_that_is_gone_keeps_nothing_from_being_published(
    scribe: Scribe, tmp_path: Path
) -> None:
    layout = Layout(tmp_path)
    folder = attempted(AttemptFolder(layout.attempt(LEASE)))
    (sealed,) = scribe.seal_all([sealing(folder, 0.5)])
    os.kill(scribe.ask(os.getpid), signal.SIGKILL)
    assert scribe.publish_all([(folder.folder, layout.published(CELL.id))]) == [None]
    assert_whole(layout.published(CELL.id), digest_of(sealed))


def test_where_it_cannot_be_started_all_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    scribe = Scribe(1)
    folder = attempted(AttemptFolder(Layout(tmp_path).attempt(LEASE)))
    assert digest_of(scribe.seal_all([sealing(folder, 0.5)])[0])
    scribe.close()


def test_a_run_of_many_short_cells_publishes_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many.yaml").write_text(
        "campaign: many\ncpu_slots: 2\ndefaults: {repeats: 60}\nmatrix:\n"
        "  models: [{name: m, adapter: mock}]\n  configs: {dense: null}\n"
        "  benchmarks: [{mock_benchmark: {rows: 1}}]\n"
    )
    assert main(["run", "many.yaml"]) == 0
    assert main(["verify", "many.yaml"]) == 0
    assert len(list(Path("benchmark_results").glob("many/m/dense/*/r*/cell.json"))) == 60
    assert not list(Path("benchmark_results/many/.attempts").glob("*/*"))
