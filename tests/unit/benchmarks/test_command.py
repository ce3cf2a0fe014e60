"""The parameters of a command and its digest; the digest reads files in a temporary folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.command import Command

GOOD: dict[str, Any] = {"name": "mine", "argv": ["python", "eval.py", "--out", "{result}"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "eval.py").write_text("print(1)\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("a = 1\n")
    return tmp_path


def _digest(folder: Path, **params: Any) -> str:
    return Command({**GOOD, **params, "folder": str(folder)}).data_digest(None)


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        ({"name": None}, "name is missing"),
        ({"argv": "python eval.py"}, r"argv must be a list; write \[python, eval.py\]"),
        ({"argv": []}, "argv is missing"),
        ({"argv": [""]}, "argv must begin with a command"),
        ({"argv": ["python", True]}, "each of argv must be text or a number, not True"),
        ({"argv": ["a\0b"]}, "each of argv must be text"),
        ({"argv": ["x", "{reslt}"]}, r"no field {reslt}; did you mean {result}\?"),
        ({"output": "{modle}.json"}, r"did you mean {model}\?"),
        ({"environment": {"A": "{modle}"}}, r"did you mean {model}\?"),
        ({"environment": ["A"]}, "environment must be a mapping"),
        ({"environment": {"A=B": "1"}}, "'A=B' cannot name a variable"),
        ({"environment": {"A": None}}, "environment.A must be text or a number"),
        ({"timeout": 600}, "timeout: 600 is not a time; write 600h, 600m or 600s"),
        ({"timeout": "0s"}, "timeout: '0s' is not a time"),
        ({"metric": 1}, "metric must be text"),
        ({"files": "a.py"}, "files must be a list"),
        ({"cwd": ""}, "cwd must be text"),
        ({"arg": 1}, r"no parameter 'arg'; did you mean 'argv'\?"),
    ],
)
def test_a_wrong_parameter_says_what_to_do(changed: Mapping[str, Any], output: str) -> None:
    with pytest.raises(ValueError, match=output):
        Command({**GOOD, **changed})


def test_braces_that_are_no_field_stay() -> None:
    Command({"name": "x", "argv": ["awk", "{print $1}", '{"a": {"b": 1}}', "{{model}}"]})


def test_what_is_no_identity_comes_apart_and_both_make_it_again(folder: Path) -> None:
    given = {**GOOD, "folder": str(folder), "timeout": "1h30m", "files": ["lib/*.py"], "cwd": "lib"}
    made = Command(given)
    assert made.outside() == {"folder": str(folder), "timeout": "1h30m", "files": ["lib/*.py"]}
    assert not made.params().keys() & made.outside().keys()
    again = Command({**made.params(), **made.outside()})
    assert (again.params(), again.outside()) == (made.params(), made.outside())


def test_the_digest_follows_the_files_in_argv_and_files(folder: Path) -> None:
    first = _digest(folder)
    assert _digest(folder) == first
    assert _digest(folder, files=["lib/*.py"]) != first
    (folder / "lib" / "a.py").write_text("a = 2\n")
    assert _digest(folder) == first
    (folder / "eval.py").write_text("print(2)\n")
    assert _digest(folder) != first


def test_the_digest_knows_files_behind_an_equals_sign_and_from_the_working_folder(
    folder: Path,
) -> None:
    argv = ["python", "--script=a.py"]
    before = _digest(folder, argv=argv, cwd="lib")
    (folder / "lib" / "a.py").write_text("a = 2\n")
    assert _digest(folder, argv=argv, cwd="lib") != before


def test_the_digest_is_the_same_in_another_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "eval.py").write_text("print(1)\n")
    assert _digest(other) == _digest(folder)


def test_files_outside_the_folder_are_not_read(folder: Path) -> None:
    argv = ["python", "/etc/hostname", "../../etc/hostname"]
    assert _digest(folder, argv=argv) == _digest(folder, argv=["python", "no-such-file"])


@pytest.mark.parametrize(
    ("changed", "output"),
    [
        ({"files": ["*.toml"]}, r"files: nothing matches '\*.toml'"),
        ({"inputs": ["*.toml"]}, r"inputs: nothing matches '\*.toml'"),
        ({"files": ["../x.py"]}, "leaves it"),
        ({"files": ["/etc/*"]}, "leaves it"),
        ({"cwd": "nowhere"}, "folder .*nowhere not found"),
        ({"argv": ["no-such-command-here"]}, "command 'no-such-command-here' not found"),
        ({"argv": ["./run.sh"]}, r"command './run.sh' not found"),
        ({"argv": ["./eval.py"]}, r"command './eval.py' not found"),
        ({"argv": ["python", "gone.py"]}, "script 'gone.py' not found in .*; correct its path"),
        ({"argv": ["python3", "-u", "-OO", "./sub/gone.py"]}, "script 'sub/gone.py' not found"),
        ({"argv": ["sh", "gone.sh"], "identity": "mine"}, "script 'gone.sh' not found"),
    ],
)
def test_what_is_not_there_is_reported_before_anything_runs(
    folder: Path, changed: Mapping[str, Any], output: str
) -> None:
    with pytest.raises(ValueError, match=output):
        _digest(folder, **changed)


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "eval.py", "gone.py"],
        ["python", "-m", "gone.py"],
        ["python", "-c", "gone.py"],
        ["python", "-X", "dev", "gone.py"],
        ["python", "{subset}.py"],
        ["python", "/elsewhere/gone.py"],
        ["python", "../gone.py"],
        ["python", "gone"],
        ["python"],
        ["sh", "-c", "gone.sh"],
        ["echo", "gone.py"],
    ],
)
def test_what_may_be_another_thing_than_a_script_is_not_looked_for(
    folder: Path, argv: Sequence[str]
) -> None:
    assert _digest(folder, argv=argv)


def test_a_script_is_looked_for_where_the_command_runs(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "own.py").write_text("print(1)")
    assert _digest(folder, argv=["python", "own.py"], cwd="sub")
    with pytest.raises(ValueError, match=r"'eval\.py' not found"):
        _digest(folder, cwd="sub")
