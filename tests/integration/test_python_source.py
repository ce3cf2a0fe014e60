"""The source of your own callable: how it is imported, found and called, in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchfleet.benchmarks.python import Python
from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.mock import MockAdapter
from kept_sessions import KeptSession


def _score(folder: Path, call: str, scratch: Path, **more: str) -> float:
    """What it scores in a session with a mock model and a real scratch folder."""
    scratch.mkdir(exist_ok=True)
    model = Model(name="m", adapter="mock", source="m", digest="mock")
    session = KeptSession(adapter=MockAdapter(model), model=model, subset=None, scratch=scratch)
    params = {"name": "x", "call": call, "folder": str(folder), **more}
    return Python(params).run(session).overall


def test_each_cell_imports_the_source_as_it_is_now_and_leaves_no_trace(tmp_path: Path) -> None:
    folder, other = tmp_path / "a", tmp_path / "b"
    for place in (folder, other):
        place.mkdir()
        (place / "own_part.py").write_text(f"VALUE = {len(place.name)}\n")
    (folder / "own_eval.py").write_text("from own_part import VALUE\ndef run(a): return VALUE\n")
    (other / "own_eval.py").write_text("def run(a):\n    import own_part\n    return 5\n")
    before, path, here = set(sys.modules), list(sys.path), os.getcwd()
    assert _score(folder, "own_eval:run", tmp_path / "s") == 1
    assert _score(other, "own_eval:run", tmp_path / "s") == 5
    (folder / "own_part.py").write_text("VALUE = 9\n")  # as long, and within the same second
    assert _score(folder, "own_eval:run", tmp_path / "s") == 9
    assert {name for name in set(sys.modules) - before if name.startswith("own_")} == set()
    assert (sys.path, os.getcwd()) == (path, here)


def test_a_written_metrics_file_goes_before_what_is_returned(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def run(adapter, result_dir):\n"
        "    with open(result_dir + '/metrics.json', 'w') as out:\n"
        "        out.write('{\"score\": 2}')\n"
        "    return {'score': 1}\n"
    )
    assert _score(tmp_path, "own:run", tmp_path / "s") == 2


def test_a_callable_in_a_class_and_one_behind_a_wrapper_are_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import functools\n"
        "class Suite:\n    @staticmethod\n    def run(adapter): return 3\n"
        "def two(adapter, extra): return extra\n"
        "partial = functools.partial(two, extra=4)\n"
    )
    assert _score(tmp_path, "own:Suite.run", tmp_path / "s") == 3
    assert _score(tmp_path, "own:partial", tmp_path / "s") == 4
    with pytest.raises(CellFailure, match=r"own has no 'Suite\.walk'"):
        _score(tmp_path, "own:Suite.walk", tmp_path / "s")


def test_a_request_reaches_the_slots_own_adapter(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def run(adapter):\n"
        "    assert adapter.provenance() == {'adapter': 'mock'}\n"
        "    return float(adapter.generate('x') == 'mock')\n"
    )
    assert _score(tmp_path, "own:run", tmp_path / "s") == 1


def test_an_aggregate_of_another_module_scores_the_samples(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def run(adapter): return {'samples': [{'x': 2}, {'x': 5}]}\n")
    (tmp_path / "sums.py").write_text("def total(samples): return sum(s['x'] for s in samples)\n")
    assert _score(tmp_path, "own:run", tmp_path / "s", aggregate="sums:total") == 7
