"""The parameters of a callable and its digest; the digest reads files in a temporary folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.python import Python


def _made(folder: Path, **params: Any) -> Python:
    return Python({"name": "mine", "call": "my_eval:run", **params, "folder": str(folder)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_eval.py").write_text("def run(adapter): return 1\nif 1:\n    X = run\n")
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("from .inner.own import evaluate\n")
    (tmp_path / "pack" / "inner" / "__init__.py").touch()
    (tmp_path / "pack" / "inner" / "own.py").write_text("def evaluate(adapter): return 1\n")
    (tmp_path / "data.json").write_text("[]")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        ({"name": ""}, "name must be text"),
        ({"call": None}, "call must be module:name"),
        ({"call": "my_eval"}, "call must be module:name"),
        ({"call": "my-eval:run"}, "call must be module:name"),
        ({"call": "my_eval:run()"}, "call must be module:name"),
        ({"params": [1]}, "params must be a mapping"),
        ({"aggregate": "f1"}, "aggregate must be module:name"),
        ({"aggregate": "my_eval:f1", "metric": "f1"}, "remove one"),
        ({"pth": "."}, r"did you mean 'path'\?"),
    ],
)
def test_a_wrong_parameter_says_what_to_do(
    tmp_path: Path, changed: Mapping[str, Any], output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        _made(tmp_path, **changed)


@pytest.mark.parametrize(
    "call", ["my_eval:run", "my_eval:X", "pack:evaluate", "pack.inner.own:evaluate"]
)
def test_a_module_or_a_package_in_the_folder_is_found_without_running_it(
    folder: Path, call: str
) -> None:
    assert len(_made(folder, call=call).data_digest(None)) == 64


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        ({"call": "my_evil:run"}, "module my_evil not found in"),
        ({"call": "json:loads"}, "module json not found in"),
        ({"call": "pack.inner.none:x"}, "module .* not found"),
        ({"path": "pack"}, "module my_eval not found in .*pack"),
        ({"call": "my_eval:rn"}, r"my_eval has no 'rn'; did you mean 'run'\?"),
        ({"aggregate": "my_eval:f1"}, "aggregate: my_eval has no 'f1'"),
        ({"call": "my_eval:print"}, "my_eval has no 'print'; there are run, X"),
        ({"files": ["*.csv"]}, "nothing matches"),
    ],
)
def test_what_is_not_there_is_reported_before_anything_runs(
    folder: Path, changed: Mapping[str, Any], output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        _made(folder, **changed).data_digest(None)


@pytest.mark.parametrize(
    ("signature", "params", "output"),
    [
        ("adapter, rows, *, seed", {"row": 1}, r"takes no 'row'; did you mean 'rows'\?"),
        ("adapter, rows=2, /, *, split='x'", {"splits": 1}, "did you mean 'split'"),
        ("adapter, rows, columns", {"rows": 1}, "my_eval:run needs 'columns'; give it a value"),
        ("adapter, *, rows", {}, "needs 'rows'"),
        ("adapter, rows=2, /", {"rows": 1}, "takes no 'rows'"),
    ],
)
def test_arguments_that_a_function_does_not_take_are_reported_before_anything_runs(
    folder: Path, signature: str, params: Mapping[str, Any], output: str
) -> None:
    (folder / "my_eval.py").write_text(f"def run({signature}): return 1\n")
    with pytest.raises(ValueError, match=output):
        _made(folder, params=params).data_digest(None)


def test_a_function_without_a_parameter_for_subsets_is_reported(folder: Path) -> None:
    with pytest.raises(ValueError, match="my_eval:run takes no subset; give it a parameter"):
        _made(folder).data_digest("easy")


@pytest.mark.parametrize(
    "source",
    [
        "def run(adapter, **kwargs): return 1",
        "def run(adapter, seed, generation, rows=1): return 1",
        "def run(adapter): return 1\nrun = wrapped(run)",
        "@wrapped\ndef run(adapter): return 1",
        "if 1:\n    def run(adapter, rows): return 1\nelse:\n    def run(adapter): return 1",
        "class run:\n    def __init__(self, rows): pass",
        "from other import *\ndef run(adapter): return 1",
    ],
)
def test_what_the_text_does_not_tell_is_left_to_the_run(folder: Path, source: str) -> None:
    (folder / "my_eval.py").write_text(f"{source}\n")
    assert _made(folder, params={"rows": 1}).data_digest(None)


def test_an_error_of_syntax_is_reported_with_its_line(folder: Path) -> None:
    (folder / "my_eval.py").write_text("x = 1\ndef run(:\n")
    with pytest.raises(ValueError, match=r"my_eval\.py, line 2"):
        _made(folder).data_digest(None)


def test_a_star_import_may_bring_any_name(folder: Path) -> None:
    (folder / "my_eval.py").write_text("from other import *\n")
    _made(folder, call="my_eval:whatever").data_digest(None)


@pytest.mark.parametrize(
    ("changed", "file"),
    [
        ({}, "my_eval.py"),
        ({"call": "pack:evaluate"}, "pack/inner/own.py"),
        ({"files": ["data.json"]}, "data.json"),
    ],
)
def test_the_digest_follows_the_source_and_nothing_else(
    folder: Path, changed: Mapping[str, Any], file: str
) -> None:
    before = _made(folder, **changed).data_digest(None)
    (folder / "pack" / "__pycache__").mkdir()
    (folder / "pack" / "__pycache__" / "x.py").touch()
    (folder / "unrelated.py").touch()
    assert _made(folder, **changed).data_digest(None) == before
    (folder / file).write_text((folder / file).read_text() + "\n")
    assert _made(folder, **changed).data_digest(None) != before


def test_where_it_lies_is_no_part_of_the_identity(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "code").mkdir()
    (other / "code" / "my_eval.py").write_text((folder / "my_eval.py").read_text())
    here, there = _made(folder), _made(other, path="code")
    assert here.params() == there.params()
    assert here.data_digest(None) == there.data_digest(None)
    assert here.outside() != there.outside()


def test_both_halves_make_it_again(folder: Path) -> None:
    made = _made(folder, params={"rows": 2}, metric="f1", files=["data.json"])
    again = Python({**made.params(), **made.outside()})
    assert (again.params(), again.outside()) == (made.params(), made.outside())


def test_an_aggregate_and_its_file_are_part_of_the_identity(folder: Path) -> None:
    plain = _made(folder)
    assert "aggregate" not in plain.params()
    (folder / "sums.py").write_text("def f1(samples): return 1\n")
    made = _made(folder, aggregate="sums:f1")
    assert made.params()["aggregate"] == "sums:f1"
    before = made.data_digest(None)
    (folder / "sums.py").write_text("def f1(samples): return 2\n")
    assert made.data_digest(None) != before
