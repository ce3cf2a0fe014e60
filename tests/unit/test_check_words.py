"""The check for words that are out finds what it must, and only in the project's own files."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools/check_words.py"), run_name="check_words")
WORDS = TOOL["read_words"]()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def heed(): ...", ["heed"]),
        ("class SeatMap: ...", ["SeatMap"]),
        ("known_hosts = 1", []),
        ("known = 1", ["known"]),
        ("def f(given): self.stray = 1", ["given", "stray"]),
    ],
)
def test_a_name_is_found_by_its_components(source: str, expected: list[str]) -> None:
    findings = TOOL["check_names"](Path("module.py"), ast.parse(source), WORDS)
    names = {finding.text.partition(":")[0] for finding in findings}
    assert sorted(names) == expected


def test_a_phrase_is_found_across_lines_of_a_docstring() -> None:
    source = 'def f():\n    """Counts the time gone\n    by."""\n'
    (finding, *_) = TOOL["check_code_prose"](Path("module.py"), source, WORDS)
    assert finding.line == 2


def test_an_sql_file_is_checked_in_identifiers_and_comments() -> None:
    text = (
        "-- name: held\n-- Whoever has it.\nselect 'told' from cell left join wanted using (id);\n"
    )
    findings = {
        finding.text.split(":")[0] for finding in TOOL["check_sql"](Path("q.sql"), text, WORDS)
    }
    assert findings == {"held", "“Whoever”", "wanted"}


def test_the_name_of_a_test_is_checked_as_a_sentence() -> None:
    source = "def test_what_is_said_is_told(told): told = 1\ndef test_it_says_so(): ...\n"
    findings = list(TOOL["check_test_names"](Path("test_x.py"), ast.parse(source), WORDS))
    assert {finding.line for finding in findings} == {1}


def test_sentences_leave_out_code_and_tables() -> None:
    text = (
        "# Head\n\nOne `a b c`. benchfleet runs.\n\n```console\n$ long one\n```\n| a | b |\n- Two\n"
    )
    sentences = [sentence for _, sentence in TOOL["sentences"](text)]
    assert sentences == ["One code.", "benchfleet runs.", "Two"]


def test_reports_of_runs_in_the_examples_are_not_checked() -> None:
    files: Callable[[list[Path]], Any] = TOOL["files"]
    own = ROOT / "examples/recall/README.md"
    report = ROOT / "examples/recall/benchmark_results/recall-demo/report.md"
    assert list(files([own, report])) == [own]
