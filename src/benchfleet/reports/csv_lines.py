"""Tables as CSV, in which a spreadsheet computes nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchfleet.domain.plain_text import one_line

_FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute


def csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The names of the columns, then a line for each row; what a row lacks is empty.

    Numbers stay as they are. Text comes in one line without control characters; an apostrophe keeps
    a spreadsheet from computing it.
    """
    yield _line(columns)
    for row in rows:
        yield _line([_cell(row.get(name)) for name in columns])


def _line(values: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
