"""Copies a ledger to another one, with its whole history."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

from benchfleet.domain.humanize import counted
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.errors import LedgerError
from benchfleet.ledger.base import Ledger

# What an SQL ledger holds, by table, in an order that lets each be entered after what it names.
TABLES = {
    "cell": (
        *("ordinal", "fingerprint", "id", "path", "state", "ready"),
        *("attempt", "tries", "token", "ended_token", "runner", "expires", "outcome"),
    ),
    "spec": ("ordinal", "spec", "terms"),
    "event": ("seq", "at", "kind", "fingerprint", "data"),
}
ROWS_PER_REPORT = 1000
Row = Sequence[Any]
Tables = Iterable[tuple[str, Iterable[Row]]]


class CopyableLedger(Ledger):
    """A ledger whose tables can be read and filled as they are."""

    @abstractmethod
    def tables(self) -> AbstractContextManager[Iterator[tuple[str, Iterable[Row]]]]:
        """All rows of each of `TABLES`, in one consistent view."""

    @abstractmethod
    def fill(self, tables: Tables, *, seen: ProgressCallback = ignore_progress) -> None:
        """Enter rows into a ledger that is empty, all of them or none. `seen` gets the number
        of events done so far. Raises LedgerError."""


def select_all(table: str) -> str:
    """The statement that reads all of a table, in the order of its key."""
    return f"select {', '.join(TABLES[table])} from {table} order by 1"  # noqa: S608 - our own names


def copy_ledger(
    source: CopyableLedger,
    target: CopyableLedger,
    *,
    ignore_running: bool = False,
    seen: ProgressCallback = ignore_progress,
) -> int:
    """Enter all of a ledger into an empty one; how many cells it has.

    `seen` gets the number of rows read, then the target's progress. Leases, tokens,
    times and numbers stay as they are. Raises LedgerError where the target is not empty, and where
    runners hold cells of the source, unless `ignore_running` says that this is known.
    """
    if not ignore_running and (holds := running_cells_warning(source)):
        raise LedgerError(f"{holds}; end them, or add --yes")
    with source.tables() as tables:
        target.fill(_with_progress(tables, seen), seen=seen)
    return sum(1 for _ in target.cells())


def _with_progress(tables: Tables, seen: ProgressCallback) -> Tables:
    """The same rows; `seen` gets the number of rows read, without a total."""
    numbers = count(1)

    def counted_row(row: Row) -> Row:
        if (number := next(numbers)) % ROWS_PER_REPORT == 0:
            seen(number, 0)
        return row

    for table, rows in tables:
        yield table, map(counted_row, rows)


def running_cells_warning(ledger: Ledger) -> str:
    """What becomes of the cells that runners hold when a ledger is copied; ``""`` for none."""
    running = ledger.cells(states=["running"], parts=True)
    holds = [record.path for record in running if (record.expires_in or 0.0) > 0.0]
    if not holds:
        return ""
    return (
        f"runners hold {len(holds)} of its cells, such as {holds[0]}: what they finish is not in "
        f"the copy"
    )


def require_empty(where: str, cells: int, events: int) -> None:
    """A copy never mixes two histories. Raises LedgerError."""
    if cells or events:
        raise LedgerError(
            f"{where} is not empty: it has {counted(cells, 'cell')} and "
            f"{counted(events, 'event')}; name another place"
        )
