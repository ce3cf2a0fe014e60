"""The embedded ledger: one SQLite file, on a local disk or where a lock test proved its locks."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.state import State
from benchfleet.errors import LedgerDamaged, LedgerError, LedgerFull, LedgerUnreachable
from benchfleet.ledger.base import DEFAULT_LEASE_S, Clock
from benchfleet.ledger.named_queries import Execute, QueryResult, load_queries
from benchfleet.ledger.sqlite.base import SqliteBase
from benchfleet.ledger.sqlite.file import (
    QUERIES,
    create,
    create_schema,
    has_full_disk,
    has_newest_view,
    is_writable,
    mount_table,
    rebuild_advice,
    refuse_network,
    refuse_schema,
    refuse_unfit,
    refuse_unmerged,
    remove_old_drafts,
)
from benchfleet.ledger.sqlite.group_commit import GroupCommit, Sync, sync_data
from benchfleet.ledger.sqlite.shared_file import is_shared
from benchfleet.ledger.table_copy import (
    TABLES,
    CopyableLedger,
    Row,
    Tables,
    require_empty,
    select_all,
)

_CACHE, _LARGE_CACHE = 2 * 2**10, 64 * 2**10  # KiB of pages kept at most
_MAKE_ROOM = "make room on the disk; what was committed is safe"
BUSY_TIMEOUT_S = 30.0  # seconds to wait for another writer; well below a lease


class SqliteLedger(SqliteBase, CopyableLedger):
    """A ledger in the file `path`, made where there is none.

    Writers go through one connection under a lock, in transactions that are short but for
    `enroll`; each reading call has a connection of its own, so that renewals never wait for one.
    A file that several machines share has a rollback journal instead of the write-ahead log, and
    each commit is synced by SQLite. A file that cannot be written, as on a read-only mount or a
    full disk, is read as it is.
    """

    def __init__(
        self,
        path: Path,
        *,
        campaign: str,
        clock: Clock = time.time,
        lease: float = DEFAULT_LEASE_S,
        busy: float = BUSY_TIMEOUT_S,
        mounts: Callable[[], str] = mount_table,
        sync: Sync = sync_data,
    ) -> None:
        super().__init__(clock=clock, lease=lease)
        self._busy = busy
        self.path = path.resolve()
        self._statements = load_queries(QUERIES)
        self._lock, self._is_full = threading.Lock(), False
        self._journal = "delete" if is_shared(self.path) else "wal"
        with self._plain_errors():
            try:
                self._can_write = not self.path.exists() or is_writable(self.path)
                if self._journal == "wal" and self._can_write:
                    refuse_network(self.path, mounts())
                if not self.path.exists():
                    create(self.path, campaign, journal=self._journal)
                refuse_unfit(self.path)
                if self._can_write:
                    remove_old_drafts(self.path)
            except OSError as error:
                raise LedgerUnreachable(f"the ledger cannot be used: {error}") from error
            try:
                self._connection = self._open(campaign)
            except sqlite3.OperationalError:
                if not (self._can_write and has_full_disk(self.path)):
                    raise
                self._can_write, self._is_full = False, True
                self._connection = self._open(campaign)
            try:
                grouped = self._journal == "wal" and self._can_write
                self._group_commit = GroupCommit(self.path, sync) if grouped else None
            except BaseException:
                self._connection.close()
                raise

    @classmethod
    def campaigns(cls, path: Path) -> Sequence[str]:
        """The campaign whose ledger the file is; none where there is no file. Raises
        LedgerUnreachable where the file is not a ledger."""
        if not path.is_file():
            return []
        mode = "ro" if is_writable(path) and not has_full_disk(path) else "ro&immutable=1"
        address = f"file:{quote(str(path.resolve()))}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
                rows = connection.execute("select value from meta where key = 'campaign'")
                return [row[0] for row in rows]
        except sqlite3.DatabaseError as error:
            raise LedgerUnreachable(f"{path} is not a ledger: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._group_commit is not None:
                self._group_commit.close()

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        """It comes to each of the indexes at random; where few pages change, a large cache only
        makes every commit slower."""
        with self._plain_errors():
            self._connection.execute(f"pragma cache_size = -{_LARGE_CACHE}")
            try:
                return super().enroll(cells, paths=paths)
            finally:
                self._connection.execute(f"pragma cache_size = -{_CACHE}")

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        records = super().cells(
            states=states, fingerprints=fingerprints, with_cell=with_cell, parts=parts
        )
        # With a rollback journal who reads holds up who writes, so it is read at once.
        return records if self._journal == "wal" else iter(list(records))

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        with self._plain_errors(), closing(self._connect()) as connection:
            connection.execute("begin")
            yield ((table, connection.execute(select_all(table))) for table in TABLES)

    def fill(self, tables: Tables, *, seen: ProgressCallback = ignore_progress) -> None:
        with self._writing():
            connection = self._connection
            counts = "select (select count(*) from cell), (select count(*) from event)"
            require_empty(str(self.path), *connection.execute(counts).fetchone())
            for table, rows in tables:
                columns = TABLES[table]
                placeholders = ", ".join("?" * len(columns))
                entering = f"insert into {table} ({', '.join(columns)}) values ({placeholders})"  # noqa: S608
                connection.executemany(entering, rows)

    @contextmanager
    def _writing(self, *, synced: bool = True) -> Iterator[Execute]:
        if self._is_full:
            raise LedgerFull(
                f"the ledger {self.path} cannot be written: its disk is full; {_MAKE_ROOM}"
            )
        if not self._can_write:
            raise LedgerUnreachable(
                f"{self.path} cannot be written; change the permissions of it and its folder, or "
                "copy the results to where they can be written and name that with --results"
            )
        execute = self._connection.execute
        with self._lock:
            try:
                execute("begin immediate")
                yield self._execute
                execute("commit")
            except BaseException as error:
                if self._connection.in_transaction:
                    execute("rollback")
                self._tell_plainly(error)
                raise
            if self._group_commit is None:  # SQLite has synced it
                return
            commit = self._group_commit.committed()
        # Everybody who uses this file runs on this machine (a network file system is refused), so
        # that the power cut which takes back a claim leaves nobody who holds it. The disk is waited
        # for when the lock is free: claims need not wait for finishes to be durable.
        if synced:
            self._group_commit.wait(commit)

    def _execute(self, name: str, /, **values: Any) -> QueryResult:
        return self._connection.execute(self._statements[name], values)

    @contextmanager
    def _reading(self) -> Iterator[Execute]:
        with self._plain_errors(), closing(self._connect()) as connection:
            yield lambda name, /, **values: connection.execute(self._statements[name], values)

    def _each(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self._connection.executemany(self._statements[name], rows)

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file as it is: unlike a plain one it never makes an empty file."""
        mode = "rw" if self._can_write else "ro"
        if not self._can_write and self._journal == "wal":
            refuse_unmerged(self.path)  # each time: a run elsewhere may have begun
            mode = "ro&immutable=1"  # else SQLite would make the files of a write-ahead log
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            timeout=self._busy,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # With a write-ahead log `_writing` syncs by itself.
            level = "normal" if self._journal == "wal" else "full"
            connection.execute(f"pragma synchronous = {level}")
            connection.execute(f"pragma cache_size = -{_CACHE}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, campaign: str) -> sqlite3.Connection:
        """A connection that finds in the file a ledger that we can use, and this campaign's."""
        connection = self._connect()
        try:
            self._prepare(connection, campaign)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, campaign: str) -> None:
        meta: dict[str, str] = {}
        if connection.execute("select 1 from sqlite_master where name = 'meta'").fetchone():
            meta = dict(connection.execute("select key, value from meta").fetchall())
        if not (meta.get("schema", "").isdecimal() and "campaign" in meta):
            raise LedgerUnreachable(
                f"{self.path} is a database but no ledger; {rebuild_advice(self.path)}"
            )
        refuse_schema(self.path, int(meta["schema"]))
        if meta["campaign"] != campaign:
            raise LedgerError(
                f"{self.path} is the ledger of campaign {meta['campaign']!r}, not of {campaign!r}; "
                f"name another ledger or results folder"
            )
        if not self._can_write:
            return
        if not has_newest_view(connection):
            create_schema(connection, campaign)
        mode = connection.execute(f"pragma journal_mode = {self._journal}").fetchone()[0]
        if mode != self._journal:
            raise LedgerUnreachable(
                f"the journal of {self.path} stays {mode}: end what uses it, or use another file "
                "system: `--ledger sqlite:///local/path`"
            )

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            self._tell_plainly(error)
            raise

    def _tell_plainly(self, error: BaseException) -> None:
        """Raise what SQLite and the system say, in words that help; not what is our mistake."""
        ours = isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError))
        if ours or not isinstance(error, sqlite3.DatabaseError):
            return
        text = str(error)
        kind: type[LedgerUnreachable] = LedgerUnreachable
        if "not a database" in text:
            advice = (
                f"name a ledger's file by --ledger, or, was it one, {rebuild_advice(self.path)}"
            )
            kind = LedgerDamaged
        elif "malformed" in text:
            kind, advice = LedgerDamaged, rebuild_advice(self.path)
        elif "locked" in text:
            advice = f"another process has been writing for {self._busy:g} s; try again"
        elif "full" in text:
            kind, advice = LedgerFull, _MAKE_ROOM
        elif "I/O" in text and has_full_disk(self.path):
            kind, advice = LedgerFull, f"its disk is full; {_MAKE_ROOM}"
        else:
            advice = f"see that its disk is well and try again, or {rebuild_advice(self.path)}"
        raise kind(f"the ledger {self.path} cannot be used: {text}; {advice}") from error
