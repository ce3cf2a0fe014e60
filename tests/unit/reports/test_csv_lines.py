"""Tables as CSV: what a spreadsheet must not compute, and what it may."""

from __future__ import annotations

import csv

import pytest

from benchfleet.reports.csv_lines import csv_lines


def test_every_column_is_there_whatever_a_row_has() -> None:
    lines = [*csv_lines(("a", "b"), [{"a": 1}, {"b": None, "c": 2}, {"a": 'x,"y"', "b": True}])]
    assert lines == ["a,b\n", "1,\n", ",\n", '"x,""y""",True\n']


@pytest.mark.parametrize("text", ["=1+1", "+sink", "-1", "@x", "\t=1", "\r\n=1", " =1"])
def test_text_that_begins_as_a_formula_stays_text(text: str) -> None:
    (row,) = csv.DictReader(csv_lines(("a",), [{"a": text}]))
    assert row["a"] == f"'{text.strip()}"


def test_a_negative_number_stays_a_number() -> None:
    assert [*csv_lines(("a", "b"), [{"a": -1.5, "b": -2}])][1] == "-1.5,-2\n"


def test_text_is_one_line_without_control_characters() -> None:
    (row,) = csv.DictReader(
        csv_lines(("a",), [{"a": "it failed\n\x1b[31mat\x00 \u202eonce \udc80"}])
    )
    assert row["a"] == "it failed \\x1b[31mat\\x00 \\u202eonce \\udc80"
