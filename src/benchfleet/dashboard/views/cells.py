"""The list of cells: filtered first, then cut into pages by the position of their last row."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.filters import Filters

PAGE_ROWS = 100
MAX_PAGE_ROWS = 500
Order = Literal[
    "", "score", "-score", "samples", "-samples", "seconds", "-seconds", "changed_at", "-changed_at"
]  # what the list is sorted by; "" for the campaign's order, a minus for the largest first


@dataclass(frozen=True, kw_only=True)
class CellPage:
    """One page of the list."""

    rows: Sequence[Row]
    total: int  # that the filters leave
    after: int  # the position of the last row, for the next page; -1 where this is the last
    first: int  # how many rows are on the pages before


def cell_page(
    model: ReadModel,
    filters: Filters,
    *,
    order: Order = "",
    after: int = -1,
    limit: int = PAGE_ROWS,
) -> CellPage:
    """The rows that match, from behind the position `after`."""
    limit = max(1, limit)
    if order:
        return _sorted_page(model, filters, order, after + 1, limit)
    rows: list[Row] = []
    total = first = 0
    more = False
    with model.lock:
        if not filters.values:
            begin = after + 1
            rows, total = model.rows[begin : begin + limit], len(model.rows)
            more = begin + limit < total
            last = rows[-1].index if rows and more else -1
            return CellPage(rows=rows, total=total, after=last, first=min(begin, total))
        for row in matching(model, filters):
            total += 1
            if row.index <= after:
                first += 1
            elif len(rows) < limit:
                rows.append(row)
            else:
                more = True
    last = rows[-1].index if rows and more else -1
    return CellPage(rows=rows, total=total, after=last, first=first)


def _sorted_page(
    model: ReadModel, filters: Filters, order: Order, begin: int, limit: int
) -> CellPage:
    """So many rows in that order; a position counts the rows before it."""
    with model.lock:
        matches = list(matching(model, filters))
        first = heapq.nsmallest(begin + limit, matches, key=_sort_key(order))
    end = begin + limit
    more = end < len(matches)
    rows = first[begin:]
    return CellPage(
        rows=rows,
        total=len(matches),
        after=end - 1 if more else -1,
        first=min(begin, len(matches)),
    )


def in_order(rows: Iterable[Row], order: Order) -> list[Row]:
    """All rows in that order."""
    return sorted(rows, key=_sort_key(order)) if order else list(rows)


def _sort_key(order: Order) -> Callable[[Row], tuple[bool, float]]:
    """What is not known comes last, either way. A score of 0 is known."""
    name = order.removeprefix("-")
    sign = -1.0 if order.startswith("-") else 1.0

    def key(row: Row) -> tuple[bool, float]:
        value: float | None = getattr(row, name)
        is_known = value is not None if name == "score" else bool(value)
        return not is_known, sign * (value or 0.0)

    return key


def matching(model: ReadModel, filters: Filters) -> Iterator[Row]:
    """The rows that the filters leave, in the campaign's order; the lock of the model is held."""
    rows: Iterable[Row] = model.rows
    for test in filters.tests():
        rows = filter(test, rows)
    return iter(rows)


def neighbours(model: ReadModel, row: Row) -> tuple[Row | None, Row | None]:
    """The previous and the next cell of the same model and config."""
    same = model.pairs[row.model, row.config].rows
    position = same.index(row)
    return (
        same[position - 1] if position else None,
        same[position + 1] if position + 1 < len(same) else None,
    )
