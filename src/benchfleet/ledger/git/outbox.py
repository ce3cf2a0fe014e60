"""Finished attempts that the remote does not have yet: a small file for each, until it has them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.errors import LedgerUnreachable


class Outbox:
    """The folder of these files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._sending: set[Path] = set()  # of blocks that are under way

    @contextmanager
    def hold(self, ended: Sequence[tuple[Lease, Outcome]]) -> Iterator[None]:
        """Hold the outcomes on disk until the block ends well."""
        files = self.add(ended)
        with self._lock:
            self._sending.update(files)
        try:
            yield
            for file in files:
                file.unlink(missing_ok=True)
        finally:
            with self._lock:
                self._sending.difference_update(files)

    def add(self, ended: Sequence[tuple[Lease, Outcome]]) -> list[Path]:
        """Write a file for each outcome. Raises LedgerUnreachable."""
        return [self._write(lease, outcome) for lease, outcome in ended]

    def fingerprints(self) -> set[str]:
        """The cells whose outcomes are held."""
        return {file.name.partition("-")[0] for file in self._folder.glob("*.json")}

    def waiting(self) -> list[tuple[Lease, Outcome]]:
        """What is held and not being sent here, the oldest first; a file that cannot be read is
        left where it is."""
        attempts = []
        with self._lock:
            sending = set(self._sending)
        with suppress(FileNotFoundError):
            for file in sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime):
                if file in sending:
                    continue
                with suppress(OSError, ValueError, LookupError, TypeError):
                    content = json.loads(file.read_text())
                    outcome = Outcome.from_dict(content["outcome"])
                    attempts.append((Lease(**content["lease"]), outcome))
        return attempts

    def _write(self, lease: Lease, outcome: Outcome) -> Path:
        file = self._folder / f"{lease.fingerprint}-{lease.token}.json"
        beside = file.with_suffix(f".{os.getpid()}")
        if file.exists():  # of an earlier try
            return file
        try:
            self._folder.mkdir(exist_ok=True)
            with open(beside, "w") as draft:
                draft.write(json.dumps({"lease": asdict(lease), "outcome": outcome.to_dict()}))
                draft.flush()
                os.fsync(draft.fileno())
            os.replace(beside, file)
        except OSError as error:
            raise LedgerUnreachable(f"{file} cannot be written: {error.strerror}") from error
        return file
