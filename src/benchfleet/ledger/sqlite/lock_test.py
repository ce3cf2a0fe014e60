"""Tests whether machines that share a folder can share an SQLite file in it.

Each machine adds to one counter, many times, at the same time as the others: it reads the counter
in a transaction, and writes one more. Where locks fail, or a machine sees old pages, additions are
lost or the file is damaged. The file notes who added when, which also compares the clocks.

``python -m benchfleet.ledger.sqlite.lock_test FILE`` takes part in the test that FILE describes.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from benchfleet.errors import LedgerError

ROUNDS = 60  # additions by each machine
MAX_CLOCK_DIFFERENCE_S = 2.0  # a lease expires by the clock of each worker
_BUSY_S = 30.0  # seconds to wait for a lock
_POLL_S = 0.05
_PAUSE_S = 0.002  # inside an addition, so that a missing lock shows
_REST_S = 0.02  # after it, to let others in
NOT_AT_ONCE = "the machines did not work at the same time; repeat the test"  # one of the problems
_SCHEMA = """
create table test (machines integer not null);
create table machine (name text primary key, ended integer not null default 0);
create table counter (value integer not null);
create table addition (
    value integer not null, machine text not null, began real not null, ended real not null
);
insert into counter values (0);
"""


def create(file: Path, machines: int) -> None:
    """Describe a test of so many machines in a new file."""
    file.unlink(missing_ok=True)
    with _opened(file) as connection:
        connection.executescript(f"begin; {_SCHEMA} commit;")
        connection.execute("insert into test values (?)", (machines,))


def take_part(file: Path, name: str, *, seconds: float, vfs: str = "") -> None:
    """Add to the counter together with the others. Raises LedgerError where they do not come in
    that time, and sqlite3.Error where the file is damaged. `vfs`: how SQLite is to reach it."""
    deadline = time.monotonic() + seconds
    with _opened(file, vfs) as connection:
        (machines,) = connection.execute("select machines from test").fetchone()
        connection.execute("insert into machine (name) values (?)", (name,))
        while (count := _count(connection, "machine")) < machines:
            if time.monotonic() > deadline:
                raise LedgerError(f"{count} of {machines} machines came to the lock test")
            time.sleep(_POLL_S)
        for _ in range(ROUNDS):
            connection.execute("begin immediate")
            began = time.time()
            (value,) = connection.execute("select value from counter").fetchone()
            time.sleep(_PAUSE_S)
            connection.execute("update counter set value = ?", (value + 1,))
            row = (value + 1, name, began, time.time())
            connection.execute("insert into addition values (?, ?, ?, ?)", row)
            connection.execute("commit")
            time.sleep(_REST_S)
        connection.execute("update machine set ended = 1 where name = ?", (name,))


def wait_for_others(file: Path, *, seconds: float) -> bool:
    """Whether all machines ended in that time."""
    deadline = time.monotonic() + seconds
    with _opened(file) as connection:
        (machines,) = connection.execute("select machines from test").fetchone()
        while _count(connection, "machine where ended") < machines:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
    return True


def problems(file: Path) -> list[str]:
    """What shows that the machines cannot share a file; none where they can."""
    try:
        with _opened(file) as connection:
            integrity = connection.execute("pragma integrity_check").fetchone()[0]
            (machines,) = connection.execute("select machines from test").fetchone()
            names = machines_of(file)
            rows = connection.execute(
                "select value, machine, began, ended from addition order by value, rowid"
            ).fetchall()
            (value,) = connection.execute("select value from counter").fetchone()
    except sqlite3.Error as error:
        return [f"the file is damaged ({error})"]
    faults = [] if integrity == "ok" else [f"the file is damaged ({integrity})"]
    expected = machines * ROUNDS
    if value != expected or [row[0] for row in rows] != list(range(1, expected + 1)):
        lost = expected - len({row[0] for row in rows})
        faults.append(f"of {expected} additions {lost} were lost")
    if len(names) < machines:
        faults.append(f"only {', '.join(names)} took part")
    pairs = list(pairwise(rows))
    middle = pairs[ROUNDS // 4 : -ROUNDS // 4]
    turns = [(one[1], other[1]) for one, other in middle if one[1] != other[1]]
    if {before for before, _ in turns} != set(names) or {after for _, after in turns} != set(names):
        faults.append(NOT_AT_ONCE)
    behind = max((one[3] - other[2] for one, other in pairs), default=0.0)
    if behind > MAX_CLOCK_DIFFERENCE_S:
        faults.append(f"their clocks differ by {behind:.1f} s; have them synchronised (NTP)")
    return faults


def machines_of(file: Path) -> list[str]:
    """The machines that took part."""
    with _opened(file) as connection:
        return [name for (name,) in connection.execute("select name from machine order by name")]


def this_machine() -> str:
    """The name of this machine in the test: as Slurm calls it, where it is a node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


@contextmanager
def _opened(file: Path, vfs: str = "") -> Iterator[sqlite3.Connection]:
    """A connection as a shared ledger has it."""
    address = f"file:{quote(str(file))}{f'?vfs={vfs}' if vfs else ''}"
    connecting = sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None)
    with closing(connecting) as connection:
        connection.execute("pragma journal_mode = delete")
        connection.execute("pragma synchronous = full")
        yield connection


def _count(connection: sqlite3.Connection, what: str) -> int:
    return int(connection.execute(f"select count(*) from {what}").fetchone()[0])  # noqa: S608


def main(words: Sequence[str]) -> int:
    """Take part in the test that the first word names."""
    take_part(Path(words[0]), this_machine(), seconds=60.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
