"""Sealed attempts are renamed to their public paths, and each that could not be is reported."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from benchfleet.results.disk import sync_folder
from benchfleet.results.publish import publish_all


@pytest.fixture
def moves(tmp_path: Path) -> list[tuple[Path, Path]]:
    """Two sealed attempts, each with its public path: of two models."""
    pairs = []
    for name in ("one", "two"):
        folder = tmp_path / ".attempts" / name / "1"
        folder.mkdir(parents=True)
        (folder / "cell.json").write_text(name)
        pairs.append((folder, tmp_path / name / "dense" / "recall"))
    return pairs


def test_what_lies_in_the_way_of_one_keeps_no_other_from_its_place(
    moves: list[tuple[Path, Path]],
) -> None:
    (sealed, public), (_, other) = moves
    public.mkdir(parents=True)
    (public / "notes.txt").write_text("mine")
    wrong, right = publish_all(moves)
    assert right is None
    assert (other / "cell.json").read_text() == "two"
    assert f"{public} cannot be published" in str(wrong)
    assert f"the sealed result waits in {sealed}" in str(wrong)
    assert (sealed / "cell.json").exists()
    assert [file.name for file in public.iterdir()] == ["notes.txt"]


def test_what_another_runner_published_is_published(moves: list[tuple[Path, Path]]) -> None:
    assert publish_all(moves) == [None, None]
    assert publish_all(moves) == [None, None]


def test_what_is_nowhere_cannot_be_published(moves: list[tuple[Path, Path]]) -> None:
    (sealed, public), other = moves
    (sealed / "cell.json").unlink()
    sealed.rmdir()
    wrong, right = publish_all([(sealed, public), other])
    assert "No such file or directory" in str(wrong)
    assert right is None


def test_a_disk_that_may_not_have_kept_a_result_is_an_error_of_that_result(
    moves: list[tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (sealed, public), (_, other) = moves

    def sync(folder: Path) -> None:
        if folder == public.parent:
            raise OSError(errno.EIO, "Input/output error")
        sync_folder(folder)

    monkeypatch.setattr("benchfleet.results.publish.sync_folder", sync)
    lost, kept = publish_all(moves)
    assert kept is None
    assert f"{public} is published, but its disk does not say that it keeps it" in str(lost)
    assert "Input/output error" in str(lost)
    assert (public / "cell.json").exists()
    assert (other / "cell.json").exists()
    assert sealed.parent.exists()  # its other attempts are kept as well


def test_of_other_attempts_only_those_that_failed_stay(moves: list[tuple[Path, Path]]) -> None:
    (sealed, _), (other_sealed, _) = moves
    unfinished, failed = sealed.with_name("2"), sealed.with_name("3")
    for attempt in (unfinished, failed, other_sealed.with_name("2")):
        attempt.mkdir()
        (attempt / "samples.jsonl").touch()
    (failed / "failure.json").write_text("{}")
    assert publish_all(moves) == [None, None]
    assert [*sealed.parent.iterdir()] == [failed]
    assert not other_sealed.parent.exists()
