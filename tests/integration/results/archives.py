"""Attempts that failed, logs that grew, and the archive that takes them."""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.results.archive import KINDS, Archive, Item
from benchfleet.results.write import AttemptFolder
from benchfleet.testing import sample_cell
from study import Study

FAILURE = Failure(stage="benchmark", kind="error", message="on purpose")
LONG = b"a line that repeats again and again\n" * 400


def attempt(study: Study, claim: Claim, samples: int, *, fails: bool = True) -> Path:
    """An attempt that recorded so many samples, and failed or was killed."""
    folder = AttemptFolder(study.layout.attempt(claim.lease))
    for index in range(samples):
        sample = {"index": index, "id": f"s{index}", "columns": {}, "predicted_answer": "yes"}
        folder.record(json.dumps(sample).encode() + b"\n")
    folder.log.write_bytes(LONG)
    folder.fail(FAILURE) if fails else folder.close()
    return folder.folder


def failed(study: Study, number: int, *samples: int, state: str = "partial") -> list[Path]:
    """A cell that failed once for each of these counts of samples, and has ended so."""
    cell, made = sample_cell(number), []
    for place, count in enumerate(samples, start=1):
        claim = study.claim(cell)
        made.append(attempt(study, claim, count))
        again = 0.0 if place < len(samples) else None
        outcome = Outcome(state=state, failure=FAILURE, retry_in=again)  # type: ignore[arg-type]
        study.ledger.finish(claim.lease, outcome)
    return made


def succeeded_late(study: Study, number: int) -> Path:
    """A cell that failed once, was tried again, and has its result; the attempt that failed."""
    (folder,) = failed(study, number, 1, state="failed")
    fingerprint = sample_cell(number).fingerprint
    study.ledger.record(Event(kind="retry_asked", fingerprint=fingerprint))
    study.finish(sample_cell(number))
    return folder


def archive(study: Study, *, busy_since: float | None = None) -> Archive:
    return Archive(study.layout, now=time.time(), busy_since=busy_since)


def items(study: Study, *what: str) -> list[Item]:
    return list(archive(study).items(study.ledger.cells(), what or KINDS))


def places(study: Study, *what: str) -> list[Path]:
    return [item.path for item in items(study, *what)]


def put_away(study: Study, what: str, act: str, tmp_path: Path) -> None:
    """All that may go of this is packed, moved or deleted, or left."""
    for item in items(study, what) if act != "leave" else ():
        if act == "delete":
            archive(study).delete(item)
        else:
            archive(study).compress(item, tmp_path / "cold" if act == "move" else None)


def grow_log(study: Study, number: int) -> Path:
    """A result with a long log; where that is."""
    cell = sample_cell(number)
    path = cell.id

    def long_log(folder: AttemptFolder) -> None:
        folder.log.write_bytes(LONG)

    study.finish(cell, before=long_log)
    return study.folder(path) / "log.txt"
