"""Looks at a campaign's results and ledger while others make them, several times a second."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from benchfleet.domain.event import Event
from benchfleet.results.disk import digest_of
from benchfleet.results.layout import CELL

_EVERY = 0.05  # seconds


class Witness:
    """Remembers every cell.json that it saw at a public path, and when leases were to end.

    `wrong` is what it saw that may not be: a published result that changed or went. It reads an
    embedded ledger with a connection that can only read.
    """

    def __init__(self, root: Path, ledger: Path) -> None:
        self._root, self._ledger = root, ledger
        self._seen: dict[str, str] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self.expiries: dict[tuple[str, int], float] = {}
        self.wrong: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and no more."""
        if self._thread.is_alive():
            self._end.set()
            self._thread.join()
        self.look()

    @contextlib.contextmanager
    def looking_away(self) -> Iterator[None]:
        """Nobody is blamed for what is done to `forget`-ten paths meanwhile."""
        with self._lock:
            yield

    def forget(self, path: str) -> None:
        """What was published there was changed on purpose; called while looking away."""
        self._seen.pop(path, None)

    def ledger_is_there(self) -> bool:
        return self._ledger.exists()

    def look(self) -> None:
        """Look at every public path and at the leases, once."""
        with self._lock:
            self._look_at_results()
        self.expiries.update(
            {(cell, token): ends for cell, (token, ends) in self._leases().items()}
        )

    def held(self) -> dict[str, int]:
        """The token of each cell that somebody holds now."""
        return {cell: token for cell, (token, _) in self._leases().items()}

    def events(self) -> list[Event]:
        """All that the ledger recorded."""
        with contextlib.closing(self._reader()) as reader:
            rows = reader.execute("select seq, at, kind, fingerprint, data from event order by seq")
            return [
                Event(kind=kind, fingerprint=cell, data=json.loads(data), seq=seq, at=at)
                for seq, at, kind, cell, data in rows
            ]

    def committed(self) -> dict[str, str]:
        """The digest of each result that the ledger took, by its public path."""
        with contextlib.closing(self._reader()) as reader:
            rows = reader.execute(
                "select cell.path, event.data from cell join event on event.seq = cell.outcome"
                " where cell.state = 'success'"
            )
            return {path: json.loads(data)["outcome"]["digest"] for path, data in rows}

    def _leases(self) -> dict[str, tuple[int, float]]:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._reader()) as reader:
            rows = reader.execute(
                "select fingerprint, token, expires from cell where state = 'running'"
            )
            return {cell: (token, expires) for cell, token, expires in rows}
        return {}

    def _look_at_results(self) -> None:
        found = {}
        for place, folders, files in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            if CELL in files:
                with contextlib.suppress(OSError):
                    path = Path(place).relative_to(self._root).as_posix()
                    found[path] = digest_of(Path(place, CELL))
        for path, digest in self._seen.items():
            if path not in found and not (self._root / path / CELL).exists():
                self.wrong.append(f"{path} was published and is gone")
            elif found.get(path, digest) != digest:
                self.wrong.append(f"{path} was published twice, with different content")
        self._seen = found

    def _reader(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self._ledger}?mode=ro", uri=True, timeout=5.0)

    def _watch(self) -> None:
        while not self._end.wait(_EVERY):
            self.look()
