"""The order of the list of cells: by one column, upwards or downwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import filterfalse
from operator import attrgetter
from typing import Any, Literal

from benchfleet.dashboard.rows import SHOWN_STATES, Row

# "" for the campaign's order, a minus for the largest first.
Order = Literal[
    "",
    "path",
    "-path",
    "state",
    "-state",
    "score",
    "-score",
    "samples",
    "-samples",
    "seconds",
    "-seconds",
    "host",
    "-host",
    "changed_at",
    "-changed_at",
    "stage",
    "-stage",
]
_STATE_NUMBERS: Mapping[str, int] = {state: at for at, state in enumerate(SHOWN_STATES, 1)}
# What each column is sorted by; the next value decides among equal ones.
_VALUES: Mapping[str, tuple[Callable[[Row], Any], ...]] = {
    "path": (attrgetter("folded_path"),),
    "state": (lambda row: _STATE_NUMBERS[row.state],),
    "score": (attrgetter("score"),),
    "samples": (attrgetter("samples"),),
    "seconds": (attrgetter("seconds"),),
    "host": (attrgetter("host"), attrgetter("device")),
    "changed_at": (attrgetter("changed_at"),),
    "stage": (attrgetter("stage"), attrgetter("kind"), attrgetter("message")),
}


def in_order(rows: Iterable[Row], order: Order) -> list[Row]:
    """All rows in that order; equal ones keep theirs. What is not known comes last, either way."""
    rows = list(rows)
    if not order:
        return rows
    column = order.removeprefix("-")
    values = _VALUES[column]
    is_known = _has_score if column == "score" else values[0]
    known_rows = list(filter(is_known, rows))
    for value in reversed(values):
        known_rows.sort(key=value, reverse=order.startswith("-"))
    return known_rows + list(filterfalse(is_known, rows))


def _has_score(row: Row) -> bool:
    return row.score is not None  # 0 is known
