"""What every place for results must do, and the sealed folders to try it with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.cache import ResultCache, reseal
from benchfleet.results.incoming_check import refusal
from benchfleet.results.read import damage, sealed
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

    def test_a_result_cache_in_it_keeps_the_first_result_of_a_cell_under_other_names(
        self, make: Callable[[], ResultStore], tmp_path: Path
    ) -> None:
        cell = sample_cell()
        other = replace(cell, config=replace(cell.config, name="another name"))
        digest = seal(tmp_path / "one", cell)
        later = seal(tmp_path / "two", cell, score=0.5)
        ResultCache(make()).put(tmp_path / "one", cell.fingerprint, digest)
        cache = ResultCache(make())
        cache.put(tmp_path / "two", cell.fingerprint, later)
        absent = sample_cell(2).fingerprint
        assert cache.digests([cell.fingerprint, absent]) == {cell.fingerprint: digest}
        (tmp_path / "into").mkdir()
        (came,) = cache.fetch({cell.fingerprint: digest, absent: digest}, tmp_path / "into")
        assert (came.fingerprint, came.problem) == (cell.fingerprint, "")
        path = "tiny/another name/bench"
        resealed = reseal(came.folder, other, path, "file:///cache").digest
        seal_of, found = sealed(came.folder)
        assert found == resealed != digest
        assert (seal_of["path"], seal_of["id"]) == (path, other.id)
        assert (
            seal_of["fingerprint"]
            == cell.fingerprint
            == Cell.from_dict(seal_of["cell"]).fingerprint
        )
        assert seal_of["provenance"]["taken_from"] == {"cache": "file:///cache", "digest": digest}
        assert damage(came.folder, seal_of) == ""
        assert json.loads((came.folder / "config.json").read_bytes())["sparse_config_name"] == (
            "another name"
        )
        changed = {"config.json", "cell.json"}
        kept = {n: c for n, c in content(came.folder).items() if n not in changed}
        assert kept == {n: c for n, c in content(tmp_path / "one").items() if n not in changed}
