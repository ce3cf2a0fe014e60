"""The list of cells: filtered first, then cut into pages by the position of their last row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.filters import Filters
from benchfleet.dashboard.views.running import rows_now
from benchfleet.dashboard.views.sorting import Order, in_order

PAGE_ROWS = 100
MAX_PAGE_ROWS = 500


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
    """The rows that match, from behind the position `after`: the campaign's, or with an order
    that among the rows that match."""
    limit = max(1, limit)
    rows: list[Row] = []
    total = first = 0
    more = False
    with model.lock:
        if order or not filters.values:
            matches = in_order(matching(model, filters), order)
            begin, end, total = after + 1, after + 1 + limit, len(matches)
            last = end - 1 if end < total else -1
            return CellPage(
                rows=matches[begin:end], total=total, after=last, first=min(begin, total)
            )
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


def matching(model: ReadModel, filters: Filters) -> Iterator[Row]:
    """The rows that the filters leave, in the campaign's order, those of running cells with where
    they run now; the lock of the model is held."""
    rows: Iterable[Row] = rows_now(model)
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
