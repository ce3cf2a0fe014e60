"""Several attempts are sealed together, and what is wrong with one is not the others' fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.results import staged_files
from benchfleet.results.disk import sync_folder
from benchfleet.results.staged_files import BESIDE, Sealed, StagedFiles, sync_all


def staged(folder: Path, samples: str = "samples.jsonl") -> StagedFiles:
    contents = {samples: b"{}\n", "cell.json": folder.name.encode()}
    sealed = Sealed(digest=folder.name, metrics={})
    changed = [folder, folder.parent]
    return StagedFiles(
        folder=folder, contents=contents, samples=samples, changed=changed, sealed=sealed
    )


def test_a_folder_that_several_have_in_common_is_synced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path | str] = []

    def noted(folder: Path | str) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(staged_files, "sync_folder", noted)
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    found = sync_all([staged(folder) for folder in folders])
    assert [one.digest for one in found if isinstance(one, Sealed)] == ["a", "b"]
    assert synced == [folders[0], tmp_path, folders[1]]
    assert (folders[1] / "cell.json").read_bytes() == b"b"


def test_a_write_error_of_one_result_is_reported_for_it_alone(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("gone", "blocked", "well")]
    for folder in folders[1:]:
        folder.mkdir()
        (folder / "samples.jsonl").write_bytes(b"as recorded\n")
    (folders[1] / "cell.json").symlink_to(tmp_path / "elsewhere")  # which is not followed
    gone, blocked, well = sync_all([staged(folder, BESIDE) for folder in folders])
    assert isinstance(gone, FileNotFoundError)
    assert isinstance(blocked, OSError)
    assert isinstance(well, Sealed)
    assert (folders[1] / "samples.jsonl").read_bytes() == b"as recorded\n"
    assert (folders[2] / "samples.jsonl").read_bytes() == b"{}\n"
    assert not (folders[1] / BESIDE).exists()
    assert not (tmp_path / "elsewhere").exists()
