"""What has ended and is not told yet: a small file for each attempt, until the remote has it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.errors import ClaimLost, LedgerUnreachable


class Outbox:
    """The folder of these files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def holding(self, lease: Lease, outcome: Outcome) -> Iterator[None]:
        """Hold what is to be told until the block ends well, or nobody wants it any more."""
        file = self._folder / f"{lease.fingerprint}-{lease.token}.json"
        self._write(file, json.dumps({"lease": asdict(lease), "outcome": outcome.to_dict()}))
        try:
            yield
        except ClaimLost:
            file.unlink(missing_ok=True)
            raise
        file.unlink(missing_ok=True)

    def waiting(self) -> list[tuple[Lease, Outcome]]:
        """What is held, the oldest first; what cannot be read is left where it is."""
        found = []
        with suppress(FileNotFoundError):
            for file in sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime):
                with suppress(OSError, ValueError, LookupError, TypeError):
                    told = json.loads(file.read_text())
                    found.append((Lease(**told["lease"]), Outcome.from_dict(told["outcome"])))
        return found

    def _write(self, file: Path, text: str) -> None:
        beside = file.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(exist_ok=True)
            with open(beside, "w") as draft:
                draft.write(text)
                draft.flush()
                os.fsync(draft.fileno())
            os.replace(beside, file)
        except OSError as error:
            raise LedgerUnreachable(f"{file} cannot be written: {error.strerror}") from error
