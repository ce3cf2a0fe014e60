"""The files of a result as text."""

from __future__ import annotations

import csv

from benchfleet.results.formats import raw_results


def test_an_answer_of_any_characters_is_one_line_of_csv() -> None:
    """Python 3.10's csv refuses a NUL."""
    records = [{"columns": {"question": "a,b"}, "predicted_answer": 'x\0y\n"z"\r\\'}]
    text = raw_results(records)
    assert "\0" not in text
    rows = list(csv.reader(text.splitlines()))
    assert rows == [["question", "predicted_answer"], ["a,b", 'x\\0y\\n"z"\\r\\\\']]
