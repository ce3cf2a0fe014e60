"""The process beside the runner that seals and publishes: as it is done here, or done here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.cli.main import main
from benchfleet.domain.attempt import Lease
from benchfleet.errors import ResultsError
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.read import damage
from benchfleet.results.read import sealed as content_of
from benchfleet.results.scribe import Scribe
from benchfleet.results.write import AttemptFolder, Verdict
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


def test_what_is_sealed_there_is_what_would_be_sealed_here(scribe: Scribe, tmp_path: Path) -> None:
    digests = []
    for name, make in (("here", AttemptFolder), ("there", scribe.folder)):
        layout = Layout(tmp_path / name)
        folder = attempted(make(layout.attempt(LEASE)))
        sealed = folder.seal(CELL, CELL.id, verdict(0.5))
        (publish if name == "here" else scribe.publish)(folder.folder, layout.published(CELL.id))
        assert_whole(layout.published(CELL.id), sealed.digest)
        assert not folder.folder.parent.exists()
        digests.append((sealed.digest, dict(sealed.metrics), dict(sealed.reported)))
    assert digests[0] == digests[1]


def test_samples_that_were_written_are_sealed_here(scribe: Scribe, tmp_path: Path) -> None:
    folder = scribe.folder(Layout(tmp_path).attempt(LEASE))
    folder.record(SAMPLE)
    folder.hold(SAMPLE.replace(b'"index": 0', b'"index": 1'))
    sealed = folder.seal(CELL, CELL.id, verdict(0.5, 1.0))
    assert_whole(folder.folder, sealed.digest)


def test_what_is_wrong_there_is_raised_here(scribe: Scribe, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    folder = attempted(scribe.folder(layout.attempt(LEASE)))
    with pytest.raises(ValueError, match="2 samples were scored, and 1 were recorded"):
        folder.seal(CELL, CELL.id, verdict(0.5, 0.5))
    layout.published(CELL.id).mkdir(parents=True)
    (layout.published(CELL.id) / "mine.txt").write_text("here first")
    with pytest.raises(ResultsError, match="cannot be published"):
        scribe.publish(folder.folder, layout.published(CELL.id))


def test_a_process_that_is_gone_is_told_once_and_then_done_without(
    scribe: Scribe, tmp_path: Path
) -> None:
    os.kill(scribe.ask(os.getpid), signal.SIGKILL)
    folder = attempted(scribe.folder(Layout(tmp_path).attempt(LEASE)))
    with pytest.raises(OSError, match="the process that writes results ended"):
        folder.seal(CELL, CELL.id, verdict(0.5))
    assert folder.seal(CELL, CELL.id, verdict(0.5)).metrics["samples"] == 1
    assert scribe.ask(os.getpid) == os.getpid()


def test_a_process_that_is_gone_keeps_nothing_from_being_published(
    scribe: Scribe, tmp_path: Path
) -> None:
    layout = Layout(tmp_path)
    folder = attempted(scribe.folder(layout.attempt(LEASE)))
    sealed = folder.seal(CELL, CELL.id, verdict(0.5))
    os.kill(scribe.ask(os.getpid), signal.SIGKILL)
    scribe.publish(folder.folder, layout.published(CELL.id))
    assert_whole(layout.published(CELL.id), sealed.digest)


def test_where_it_cannot_be_started_all_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    scribe = Scribe(1)
    folder = attempted(scribe.folder(Layout(tmp_path).attempt(LEASE)))
    assert folder.seal(CELL, CELL.id, verdict(0.5)).metrics["samples"] == 1
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
