"""What a PostgreSQL ledger tells: its cells and its events, each in one consistent view."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.domain.state import State
from benchfleet.errors import LedgerDamaged, LedgerUnreachable
from benchfleet.ledger.copying import TABLES, Row
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.statements import do, read
from benchfleet.ledger.rows import record_of
from benchfleet.ledger.sql import Clock

_BREAKS = 10  # of a line, without a row in between, until a reader gives up
_ONE_VIEW = (
    "begin isolation level repeatable read read only; set local statement_timeout = 0;"
    " set local idle_in_transaction_session_timeout = 0"
)


class Reading:
    """Reads over connections; a cell's times are told by `clock`, or by the server's."""

    def __init__(self, connections: Connections, *, clock: Clock | None, turn: int) -> None:
        self._connections, self._clock, self._turn = connections, clock, turn

    def events(
        self,
        since: int,
        among: Collection[str] | None,
        kinds: Collection[str] | None,
    ) -> Sequence[Event]:
        values: dict[str, Any] = {"kinds": None if kinds is None else list(kinds)}
        values |= {} if among is None else {"among": list(among)}
        name = "events" if among is None else "events_among"

        def found(connection: Connection) -> list[Any]:
            with connection.transaction():  # whatever has a smaller number can be seen
                do(connection, "all_told", turn=self._turn)
                last = do(connection, "last_event").fetchall()[0][0]
            return do(connection, name, since=since, last=last, **values).fetchall()

        return [
            Event(kind=kind, fingerprint=fingerprint, data=json.loads(data), seq=seq, at=at)
            for seq, at, kind, fingerprint, data in self._connections.asked(found)
        ]

    def cells(
        self,
        states: Collection[State],
        among: Collection[str] | None,
        whole: bool,
    ) -> Iterator[CellRecord]:
        values: dict[str, Any] = {"states": list(states)}
        values |= {"whole": whole} if among is None else {"whole": whole, "among": list(among)}
        name = "cells" if among is None else "cells_among"

        after = 0  # of the cells that were told, the last; where the line breaks we go on there

        def opened(connection: Connection) -> tuple[float, Iterator[Row]]:
            """One consistent view, with its time."""
            now = self._clock() if self._clock else do(connection, "time").fetchall()[0][0]
            connection.execute(_ONE_VIEW)
            return now, read(connection, name, after=after, **values)

        breaks, left = 0, False
        while True:
            reading = False
            try:
                with self._connections.lent(opened) as (now, rows):
                    reading = True
                    for ordinal, *row in rows:
                        after, breaks = ordinal, 0
                        record = record_of(row, now)
                        left = True
                        yield record
                        left = False
            except LedgerDamaged:  # that is no break of the line
                raise
            except LedgerUnreachable:
                if left:  # nobody reads on
                    return
                breaks += 1
                if not reading or breaks > _BREAKS:  # to open it was waited long enough
                    raise
            else:
                return

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        def opened(connection: Connection) -> Connection:
            connection.execute(_ONE_VIEW)
            return connection

        with self._connections.lent(opened) as connection:
            yield ((table, read(connection, f"{table}_rows")) for table in TABLES)
