"""A ledger's file that several machines use: only where a lock test proved that they can.

SQLite's write-ahead log needs memory that all its users share, so such a file has a rollback
journal, which needs nothing but locks (https://sqlite.org/lockingv3.html). The proof lies beside
the ledger. It counts for that folder alone.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from benchfleet.errors import LedgerUnreachable

_TIMEOUT_S = 5.0  # seconds to wait for others who use the file


def proof_file(ledger: Path) -> Path:
    """Where the proof for a ledger lies."""
    return ledger.with_name(f"{ledger.name}.locks.json")


def is_shared(ledger: Path) -> bool:
    """Whether a lock test proved that several machines may use this file."""
    try:
        proof = json.loads(proof_file(ledger).read_text("utf-8"))
        return bool(proof["folder"] == str(ledger.resolve().parent))
    except (OSError, ValueError, LookupError, TypeError):
        return False


def share(ledger: Path, machines: Collection[str]) -> None:
    """Keep the proof of a lock test between these machines, and give the file a rollback journal.

    Raises LedgerUnreachable where somebody uses the file.
    """
    folder = str(ledger.resolve().parent)
    proof = {"folder": folder, "machines": sorted(machines), "at": time.time()}
    proof_file(ledger).write_text(json.dumps(proof, indent=2), "utf-8")
    if not ledger.exists():
        return
    try:
        with closing(sqlite3.connect(ledger, timeout=_TIMEOUT_S)) as connection:
            mode = connection.execute("pragma journal_mode = delete").fetchone()[0]
            problem = "" if mode == "delete" else f"its journal stays {mode}"
    except sqlite3.Error as error:
        problem = str(error)
    if problem:
        proof_file(ledger).unlink()
        raise LedgerUnreachable(
            f"{ledger} cannot be shared with other machines now ({problem}): end what uses it, "
            "such as `benchfleet run`, and submit again"
        )
