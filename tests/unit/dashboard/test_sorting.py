"""The order of the list of cells."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row, row_of
from benchfleet.dashboard.views.cells import cell_page
from benchfleet.dashboard.views.filters import Filters
from benchfleet.dashboard.views.sorting import Order, in_order
from benchfleet.testing import sample_cell


def rows_with(**values: list[Any]) -> list[Row]:
    """Rows whose attributes have these values, in this order."""
    (count,) = {len(each) for each in values.values()}
    rows = [row_of(index, sample_cell(index), None) for index in range(count)]
    for name, each in values.items():
        for row, value in zip(rows, each, strict=True):
            setattr(row, name, value)
    return rows


def positions(rows: list[Row], order: Order) -> list[int]:
    return [row.index for row in in_order(rows, order)]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("score", [None, 0.5, 0.0, -1.0, 0.5]),
        ("samples", [0, 30, 4, 3, 30]),
        ("seconds", [0.0, 30.0, 4.0, 3.0, 30.0]),
        ("changed_at", [0.0, 30.0, 4.0, 3.0, 30.0]),
        ("host", ["", "lab2", "lab1", "lab0", "lab2"]),
        ("stage", ["", "score", "load", "benchmark", "score"]),
    ],
)
def test_equal_rows_keep_their_order_and_unknown_ones_come_last(
    column: str, values: list[Any]
) -> None:
    rows = rows_with(**{column: values})
    up: Any = column
    down: Any = f"-{column}"
    assert positions(rows, up) == [3, 2, 1, 4, 0]
    assert positions(rows, down) == [1, 4, 2, 3, 0]


def test_words_are_sorted_by_what_is_shown_beside_them_too() -> None:
    rows = rows_with(
        host=["lab1", "lab1", "lab0"],
        device=["gpu:1", "gpu:0", "gpu:2"],
        stage=["load", "load", "load"],
        kind=["oom", "oom", "error"],
        message=["b", "a", "c"],
    )
    assert positions(rows, "host") == [2, 1, 0]
    assert positions(rows, "-host") == [0, 1, 2]
    assert positions(rows, "stage") == [2, 1, 0]
    assert positions(rows_with(folded_path=["b", "c", "a"]), "path") == [2, 0, 1]


def test_states_go_from_waiting_to_the_end() -> None:
    rows = rows_with(state=["failed", "success", "pending", "running"])
    assert positions(rows, "state") == [2, 3, 1, 0]


def test_pages_in_every_order_have_each_row_once() -> None:
    model = ReadModel("study")
    model.rows = rows_with(score=[0.5, None, 0.5, 0.1, 0.5], state=["pending"] * 5)
    for order in get_args(Order):
        for filters in (Filters(), Filters(state="pending")):
            seen: list[int] = []
            after = -1
            while True:
                page = cell_page(model, filters, order=order, after=after, limit=2)
                assert (page.total, page.first) == (5, len(seen))
                seen += [row.index for row in page.rows]
                after = page.after
                if after < 0:
                    break
            assert seen == positions(model.rows, order)
