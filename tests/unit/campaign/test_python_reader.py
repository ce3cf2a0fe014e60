"""Files in Python; none of them is on disk, and those that look beside themselves are not here."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from benchfleet.campaign.python_reader import read_python
from benchfleet.campaign.source import Source

FILE = Path("/nowhere/study.py")


def _read(text: str) -> Source:
    return read_python(dedent(text), FILE)


def _flaw(text: str) -> tuple[str, int | None]:
    (flaw,) = _read(text).flaws
    return flaw.message, flaw.line


@pytest.mark.parametrize(
    "text",
    [
        "campaign = {'campaign': 'study', 'gpus': [0, 1]}",
        "def campaign():\n    return dict(campaign='study', gpus=(0, 1))",
        "campaign: dict = {'campaign': 'stu' + 'dy'}\ncampaign['gpus'] = list(range(2))",
        "campaign = lambda: {'campaign': 'study', 'gpus': [g for g in range(2)]}",
    ],
)
def test_a_value_and_a_function_say_the_same(text: str) -> None:
    source = _read(text)
    assert source.data == {"campaign": "study", "gpus": [0, 1]}
    assert source.flaws == ()


def test_what_stands_literally_has_its_line() -> None:
    source = _read(
        """\
        import math
        models = ["m"]
        campaign = {
            "campaign": "study",
            "matrix": {
                "models": models,
                "configs": dict(
                    dense=None,
                ),
                "benchmarks": ["a",
                               "b"],
            },
        }
        """
    )
    lines = {
        ("campaign",): 4,
        ("matrix",): 5,
        ("matrix", "models"): 6,
        ("matrix", "models", 0): 6,
        ("matrix", "configs", "dense"): 8,
        ("matrix", "benchmarks", 1): 11,
    }
    assert {path: source.line(path) for path in lines} == lines


def test_what_a_function_returns_has_its_lines_too() -> None:
    source = _read("def campaign():\n    x = 1\n    return {\n        'gpus': x,\n    }\n")
    assert source.line(("gpus",)) == 4


def test_items_behind_an_unpacked_list_have_the_line_around_them() -> None:
    source = _read("more = [1, 2]\ncampaign = {'gpus': [\n  0,\n  *more,\n  3]}\n")
    assert source.data == {"gpus": [0, 1, 2, 3]}
    assert [source.line(("gpus", place)) for place in range(4)] == [3, 2, 2, 2]


def test_dataclasses_and_annotations_work_in_the_file() -> None:
    source = _read(
        """\
        from __future__ import annotations
        from dataclasses import dataclass
        @dataclass
        class Length:
            size: int
        campaign = {"gpus": [Length(size=3).size]}
        """
    )
    assert source.data == {"gpus": [3]}
    evaluated = "x: int = 3\ncampaign = {'a': __annotations__['x'].__name__}"
    assert _read(evaluated).data == {"a": "int"}


def test_the_file_knows_where_it_is_and_that_it_is_not_run_as_a_program() -> None:
    assert _read("campaign = {'file': __file__}").data == {"file": str(FILE)}
    assert _read("campaign = {}\nif __name__ == '__main__': campaign = None").data == {}


def test_nothing_of_the_file_is_left_behind() -> None:
    modules, path = dict(sys.modules), list(sys.path)
    _read("import sys\nsys.path.append('/elsewhere')\ncampaign = {'a': __name__}")
    _flaw("import sys\nsys.path.append('/elsewhere')\nraise OSError")
    assert dict(sys.modules) == modules
    assert sys.path == path


def test_what_the_file_prints_stays_out_of_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    _read("print('hello')\ndef campaign():\n    print('again')\n    return {}")
    assert capsys.readouterr() == ("", "hello\nagain\n")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\ncampaign = {1/0: 2}", "raises ZeroDivisionError: division by zero", 2),
        ("def f():\n    raise OSError\n\ncampaign = f", "raises OSError", 2),
        ("import no_such_module_x", "raises ModuleNotFoundError: No module named", 1),
        ("import json\n\njson.loads('{')", "raises JSONDecodeError: Expecting", 3),
        ("def campaign(x): return {}", "raises TypeError: campaign() missing", None),
        ("def campaign():\n    return campaign()", "raises RecursionError", 2),
        ("x = 1\nraise SystemExit(3)", "ends itself (SystemExit: 3)", 2),
        ("import sys\nsys.exit('enough')", "ends itself (SystemExit: enough)", 2),
        ("campaign = {\n", "is not Python: '{' was never closed", 1),
        ("x = 1\nreturn 3", "is not Python: 'return' outside function", 2),
        ("x = 1\n  y = 2", "is not Python: unexpected indent", 2),
        ("campain = {}", "says nowhere what 'campaign' is", None),
        ("", "says nowhere what 'campaign' is", None),
    ],
)
def test_an_error_in_the_file_is_a_mistake_with_its_line(
    text: str, message: str, line: int | None
) -> None:
    found, at = _flaw(text)
    assert found.startswith(message)
    assert at == line


def test_text_that_no_python_file_can_hold_is_a_mistake() -> None:
    (flaw,) = read_python("a = '\0'", FILE).flaws
    assert flaw.message.startswith("is not Python: ")


def test_a_key_press_is_not_taken_for_a_mistake() -> None:
    with pytest.raises(KeyboardInterrupt):
        _read("raise KeyboardInterrupt")


def test_an_object_that_is_no_plain_data_is_reported_at_its_line() -> None:
    source = _read("campaign = {\n  'results': object(),\n}")
    (flaw,) = source.flaws
    assert flaw.message.startswith("is of type object, no plain data")
    assert source.line(flaw.path) == 2


def test_what_holds_itself_is_one_mistake() -> None:
    message, line = _flaw("campaign = {}\ncampaign['a'] = campaign")
    assert message.startswith("is nested more than")
    assert line is None
