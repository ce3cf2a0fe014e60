"""The file of an embedded ledger: made, found fit, and brought to the schema of today."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

from benchfleet.errors import LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnreachable

SCHEMA = 2  # its number, as schema.sql enters it
_SCHEMA_FILES = [Path(__file__).with_name(name) for name in ("schema.sql", "manifest.sql")]
_NEWEST_TEXT = "final_cost"  # in the view of the manifest
QUERIES = Path(__file__).with_name("queries.sql")
_SHARED_MEMORY_BYTES = 2**16  # SQLite takes half of it
MAX_DRAFT_AGE_S = 60.0  # seconds
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "beegfs_nodev", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs"}
    | {"nfs4", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
    | {"fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone"}
    | {"fuse.s3fs", "fuse.sshfs"}
)
LEDGER_MARKERS = (b"ended_token", b'"token": ')  # of its tables, and of what happened
_REBUILD = (
    "move {path} aside, with {name}-wal and {name}-shm where they exist, and run "
    "`benchfleet ledger rebuild CAMPAIGN`"
)


def mount_table() -> str:
    """What is mounted where, as Linux tells it; empty on other systems."""
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def network_file_system(folder: Path, mounts: str) -> str | None:
    """The type of the network file system that holds `folder`, or None where it is local.

    `mounts` is in the format of /proc/mounts. SQLite's WAL needs memory that all its users share,
    which a network file system does not give (https://sqlite.org/wal.html).
    """
    inside = {str(folder), *map(str, folder.parents)}
    longest, kind = "", None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1]
        for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            point = point.replace(code, character)
        if point in inside and len(point) >= len(longest):  # the later mount lies on top
            longest, kind = point, fields[2]
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def create(path: Path, campaign: str, *, journal: str = "wal") -> None:
    """Make the whole ledger under another name, then link it into place: nobody ever sees a
    half-made one, and of two makers one wins. Raises LedgerUnreachable."""
    for leftover in (f"{path}-wal", f"{path}-shm"):
        # SQLite would replay it into the new file. Where the file is there by now, another
        # process made it a moment ago, and this is no leftover.
        if os.path.exists(leftover) and not path.exists():
            raise LedgerUnreachable(
                f"{leftover} was left by a ledger that is gone; put {path.name} back, "
                f"or move the leftover aside and run `benchfleet ledger rebuild CAMPAIGN`"
            )
    draft = path.with_name(f".{path.name}.{os.urandom(16).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch()
    except OSError as error:
        raise LedgerUnreachable(
            f"{path.parent} cannot be written ({error.strerror}), so no ledger can be made there; "
            "change its permissions, or name another place: `--ledger sqlite:///local/path`"
        ) from error
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute(f"pragma journal_mode = {journal}")
            create_schema(connection, campaign)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        draft.unlink(missing_ok=True)


def remove_old_drafts(path: Path) -> None:
    """Remove the drafts of killed processes; making a ledger takes less than a minute."""
    for draft in path.parent.glob(f".{path.name}.*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > MAX_DRAFT_AGE_S:
                draft.unlink()


def refuse_network(path: Path, mounts: str) -> None:
    """Raise LedgerUnreachable where the file is on a network file system, by these ``mounts``."""
    kind = network_file_system(path.parent, mounts)
    if kind is not None:
        raise LedgerUnreachable(
            f"{path} is on a network file system ({kind}), where SQLite loses data; keep "
            f"the ledger on a local disk: `--ledger sqlite:///local/path`. On a Slurm cluster "
            "`benchfleet slurm submit` tests whether its nodes can share it"
        )


def refuse_unfit(path: Path) -> None:
    """Raise LedgerUnreachable, or LedgerDamaged, at what SQLite would take for a new or a read-only
    database."""
    if not path.is_file():
        repository = (
            f" (a repository is named git+file://{path})" if (path / "HEAD").exists() else ""
        )
        raise LedgerUnreachable(
            f"{path} is not a file; name a file by --ledger{repository}, or, where it is"
            " in the way of one, move it aside and run `benchfleet ledger rebuild CAMPAIGN`"
        )
    if path.stat().st_size == 0:
        raise LedgerDamaged(f"{path} is empty, so it lost data; {rebuild_advice(path)}")
    for location in (path, path.parent):
        if not os.access(location, os.R_OK):
            raise LedgerUnreachable(
                f"{location} cannot be read; change its permissions, or {rebuild_advice(path)}"
            )


def is_writable(path: Path) -> bool:
    """Whether a ledger's file, and its folder, can be written."""
    return all(os.access(location, os.W_OK) for location in (path, path.parent))


def has_full_disk(path: Path) -> bool:
    """Whether the disk lacks room for the memory that users of a write-ahead log share."""
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < _SHARED_MEMORY_BYTES
    return False


def refuse_unmerged(path: Path) -> None:
    """Raise LedgerUnreachable where the newest events of a ledger that cannot be written are in its
    write-ahead log still: SQLite needs to write in order to read them."""
    log = Path(f"{path}-wal")
    with suppress(FileNotFoundError):
        if log.stat().st_size:
            raise LedgerUnreachable(
                f"{path} cannot be written, and its newest events are in {log.name} still, which a "
                "run that goes on or was killed leaves; use it where it can be written, or copy "
                f"{path.parent} to such a place and name it with --results"
            )


def rebuild_advice(path: Path) -> str:
    """How to rebuild a ledger."""
    return _REBUILD.format(path=path, name=path.name)


def has_newest_view(connection: sqlite3.Connection) -> bool:
    """Whether there is a view of the manifest, and an earlier version did not make it."""
    query = "select 1 from sqlite_master where name = 'benchmark_manifest' and instr(sql, ?)"
    return connection.execute(query, (_NEWEST_TEXT,)).fetchone() is not None


def create_schema(connection: sqlite3.Connection, campaign: str) -> None:
    """Make the tables and the view, where there are none yet; a view of an earlier version is
    replaced."""
    script = "".join(file.read_text(encoding="utf-8") for file in _SCHEMA_FILES)
    if not has_newest_view(connection):
        script = f"drop view if exists benchmark_manifest; {script}"
    connection.executescript(f"begin immediate; {script} commit;")
    connection.execute("insert or ignore into meta values ('campaign', ?)", (campaign,))


def refuse_schema(path: Path, schema: int) -> None:
    """Raise LedgerTooNew, or LedgerError, where another version of benchfleet made the ledger."""
    if schema > SCHEMA:
        raise LedgerTooNew(
            f"{path} was written by a newer benchfleet: its schema is {schema}, this one knows "
            f"{SCHEMA}; upgrade benchfleet (nothing was touched)"
        )
    if schema < SCHEMA:
        raise LedgerError(
            f"{path} was made by an earlier benchfleet (schema {schema}, this one needs {SCHEMA}); "
            f"its results are kept: {rebuild_advice(path)}"
        )


def was_ledger(file: Path) -> bool:
    """Whether what is left in a damaged file shows that it was a ledger; an empty one may be."""
    if not file.stat().st_size:
        return True
    with open(file, "rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as content:
        return any(content.find(trace) >= 0 for trace in LEDGER_MARKERS)


def set_aside(file: Path) -> Path:
    """Move a ledger's file, and what belongs to it, out of the way; where it is kept."""
    number = 1
    while (backup := file.with_name(f"{file.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm", ""):
        if (part := file.with_name(file.name + suffix)).exists():
            os.rename(part, backup.with_name(backup.name + suffix))
    return backup
