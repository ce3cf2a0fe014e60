"""Results read back: links, pipes, and files of another format."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from benchfleet.errors import ResultsError
from benchfleet.results.disk import write_atomically
from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish
from benchfleet.results.read import (
    damage,
    log_tail,
    published_folders,
    sealed,
    sealed_attempts,
)

from .conftest import sealed_folder


def test_links_out_of_the_tree_are_not_followed(layout: Layout, tmp_path: Path) -> None:
    folder, _ = sealed_folder(layout)
    outside = tmp_path / "outside" / "config" / "benchmark"
    publish(folder, outside)
    (layout.root / "model").symlink_to(tmp_path / "outside")
    assert list(published_folders(layout.root)) == []


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/hostname", "deep/../metrics.json", "", ".", "deep//x", "a\0b"]
)
def test_only_files_of_the_folder_are_compared_with_its_manifest(layout: Layout, name: str) -> None:
    folder, _ = sealed_folder(layout)
    assert damage(folder, {"files": {name: "0" * 64}}) == f"{name!r} is not a file of its folder"


def test_links_and_pipes_are_no_files_of_a_manifest(layout: Layout, tmp_path: Path) -> None:
    folder, _ = sealed_folder(layout)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"")
    (folder / "folder").symlink_to(tmp_path / "outside")
    (folder / "link").symlink_to(folder / "metrics.json")
    os.mkfifo(folder / "pipe")
    empty = hashlib.sha256(b"").hexdigest()
    assert (
        damage(folder, {"files": {"folder/x": empty}}) == "'folder/x' is not a file of its folder"
    )
    for name in ("link", "pipe"):
        assert damage(folder, {"files": {name: empty}}) == f"{name} is missing"


@pytest.mark.parametrize("other", [99, 0, None, "1"])
def test_a_result_of_another_format_is_refused_by_name(layout: Layout, other: object) -> None:
    folder, _ = sealed_folder(layout)
    content = json.loads((folder / "cell.json").read_text())
    (folder / "cell.json").write_text(json.dumps({**content, "format": other}))
    with pytest.raises(ResultsError, match=re.escape(f"has the results format {other!r}")):
        sealed(folder)


def test_a_cell_json_that_is_a_pipe_holds_nobody_up(layout: Layout) -> None:
    folder, _ = sealed_folder(layout)
    (folder / "cell.json").unlink()
    os.mkfifo(folder / "cell.json")
    with pytest.raises(ResultsError, match="regular file"):
        sealed(folder)
    assert sealed_attempts(layout) == {}


def test_the_tail_of_a_huge_line_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"x" * 10**6 + b"\nthe end")
    tail = log_tail(log)
    assert tail.endswith("the end")
    assert len(tail) <= 8192
    assert log_tail(tmp_path / "none") == ""


def test_a_summary_is_replaced_in_one_step(tmp_path: Path) -> None:
    file = tmp_path / "execution_summary.json"
    for number in (1, 2):
        write_atomically(file, json.dumps({"number": number}))
    assert json.loads(file.read_text()) == {"number": 2}
    assert list(tmp_path.iterdir()) == [file]
