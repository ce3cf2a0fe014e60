"""What every place for results must do, and the sealed folders to try it with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.incoming_check import refusal
from benchfleet.results.stores.base import ResultStore
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing.sample_cells import sample_cell

PATH = "tiny/dense/odd name é+[x]"


def seal(
    folder: Path,
    cell: Cell,
    *,
    path: str = PATH,
    score: float = 1.0,
    provenance: Mapping[str, Any] = {},
) -> str:
    """Make a sealed folder of the cell; the digest of its cell.json."""
    attempt = AttemptFolder(folder)
    attempt.record(b'{"index": 0, "id": "s0", "columns": {}, "predicted_answer": "x"}\n')
    attempt.append("raw/deep/data.bin", bytes(range(256)))
    scored = {"overall": score, "per_sample": [score], "tasks": {}, "summary": {}}
    return attempt.seal(cell, path, Verdict(score=scored, seconds={}, provenance=provenance)).digest


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


class StoreContract:
    """The contract. A subclass has the fixture `make`, each call of which opens the same store."""

    def test_what_is_put_comes_back_as_it_was(
        self, make: Callable[[], ResultStore], tmp_path: Path
    ) -> None:
        cell = sample_cell()
        digest = seal(tmp_path / "one", cell)
        assert make().digests([PATH]) == {}
        make().put(tmp_path / "one", PATH, digest)
        assert make().digests([PATH, "tiny/dense/other"]) == {PATH: digest}
        (tmp_path / "into").mkdir()
        make().fetch([PATH, "tiny/dense/other"], tmp_path / "into")
        assert content(tmp_path / "into" / PATH) == content(tmp_path / "one")
        assert refusal(tmp_path / "into", PATH, cell.fingerprint, digest) == ""

    def test_putting_it_again_changes_nothing_and_another_result_takes_its_path(
        self, make: Callable[[], ResultStore], tmp_path: Path
    ) -> None:
        cell = sample_cell()
        first = seal(tmp_path / "one", cell)
        second = seal(tmp_path / "two", cell, score=0.5)
        for _ in range(2):
            make().put(tmp_path / "one", PATH, first)
        make().put(tmp_path / "two", PATH, second)
        assert make().digests([PATH]) == {PATH: second}
        (tmp_path / "into").mkdir()
        make().fetch([PATH], tmp_path / "into")
        assert content(tmp_path / "into" / PATH) == content(tmp_path / "two")

    def test_a_removed_result_is_gone_and_another_may_take_its_path(
        self, make: Callable[[], ResultStore], tmp_path: Path
    ) -> None:
        digest = seal(tmp_path / "one", sample_cell())
        make().put(tmp_path / "one", PATH, digest)
        for _ in range(2):
            make().remove(PATH)
        assert make().digests([PATH]) == {}
        (tmp_path / "into").mkdir()
        make().fetch([PATH], tmp_path / "into")
        assert os.listdir(tmp_path / "into") == []
        make().put(tmp_path / "one", PATH, digest)
        assert make().digests([PATH]) == {PATH: digest}

    def test_nothing_comes_from_where_nothing_was_put(
        self, make: Callable[[], ResultStore], tmp_path: Path
    ) -> None:
        (tmp_path / "into").mkdir()
        make().fetch([PATH], tmp_path / "into")
        make().fetch([], tmp_path / "into")
        assert os.listdir(tmp_path / "into") == []

    @pytest.mark.parametrize("path", ["../../x", "/etc/a/b", "a/../../b", "a/b"])
    def test_no_path_leads_out_of_it(
        self, make: Callable[[], ResultStore], tmp_path: Path, path: str
    ) -> None:
        digest = seal(tmp_path / "one", sample_cell())
        for ask in (
            lambda: make().put(tmp_path / "one", path, digest),
            lambda: make().digests([path]),
            lambda: make().remove(path),
            lambda: make().fetch([path], tmp_path / "into"),
        ):
            with pytest.raises(ResultsError, match="not a path"):
                ask()
