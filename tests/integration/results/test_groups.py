"""Attempts that are sealed and published as one group: an error of one is not the others'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchfleet.errors import ResultsError
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish_all
from benchfleet.results.read import damage
from benchfleet.results.read import sealed as content_of
from benchfleet.results.staged_files import Sealed
from benchfleet.results.write import AttemptFolder, Sealing, seal_all
from benchfleet.testing.sample_cells import sample_cell

from .conftest import LEASE, line, verdict


def sealing(layout: Layout, number: int, *scores: float) -> Sealing:
    cell = sample_cell(number)
    folder = AttemptFolder(layout.attempt(replace(LEASE, fingerprint=cell.fingerprint)))
    folder.record(line(0))
    return Sealing(folder=folder, cell=cell, path=cell.id, verdict=verdict(*scores))


def assert_whole(folder: Path, sealed: Sealed | Exception) -> None:
    content, digest = content_of(folder)
    assert isinstance(sealed, Sealed)
    assert (damage(folder, content), digest) == ("", sealed.digest)


def test_a_bad_score_fails_its_own_attempt_alone(layout: Layout) -> None:
    group = [sealing(layout, 1, 0.5), sealing(layout, 2, 0.5, 0.5), sealing(layout, 3, 1.0)]
    first, bad, last = seal_all(group)
    assert isinstance(bad, ValueError)
    assert "2 samples were scored, and 1 were recorded" in str(bad)
    assert_whole(group[0].folder.folder, first)
    assert_whole(group[2].folder.folder, last)


def test_an_occupied_public_path_keeps_its_own_result_back_alone(layout: Layout) -> None:
    group = [sealing(layout, number, 0.5) for number in (1, 2)]
    sealed = seal_all(group)
    taken, free = (layout.published(path) for path in ("m/c/taken", "m/c/free"))
    taken.mkdir(parents=True)
    (taken / "mine.txt").write_text("here first")
    moves = list(zip([one.folder.folder for one in group], (taken, free), strict=True))
    wrong, right = publish_all(moves)
    assert isinstance(wrong, ResultsError)
    assert right is None
    assert_whole(free, sealed[1])
    assert_whole(group[0].folder.folder, sealed[0])
