"""What a script left behind, on a disk: renaming is all that there is to see."""

from __future__ import annotations

from pathlib import Path

from benchfleet.benchmarks.output_files import rename_reserved_files
from benchfleet.domain.names import path_part


def _names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_good_names_stay_and_others_become_keepable(tmp_path: Path) -> None:
    for name in ("metrics.json", "sub/log.txt", "log.txt", ".state/.x", "a:b", "a_b", " ", "n\nl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
    rename_reserved_files(tmp_path)
    assert _names(tmp_path) == [
        "a_b", "metrics.json", "own_", "own_.state/own_.x", "own_a_b", "own_log.txt", "own_n_l",
        "sub/log.txt",
    ]  # fmt: skip
    assert (tmp_path / "own_log.txt").read_text() == "log.txt"
    assert all(path_part(part) == part for name in _names(tmp_path) for part in name.split("/"))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".x").write_text("hidden")
    (tmp_path / "own_.x").write_text("shown")
    rename_reserved_files(tmp_path)
    assert (tmp_path / "own_.x").read_text() == "shown"
    assert (tmp_path / "own_.x_2").read_text() == "hidden"


def test_names_too_long_are_cut(tmp_path: Path) -> None:
    (tmp_path / ("é" * 120)).touch()
    rename_reserved_files(tmp_path)
    assert _names(tmp_path) == ["own_" + "é" * 40]
