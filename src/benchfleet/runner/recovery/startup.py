"""Putting right what a crash left: results that wait for their rename, attempts that came too late,
and empty folders."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.read import is_published, left_attempts, sealed_attempts, too_late


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A result that the ledger took and nobody had published."""

    path: str
    problem: str = ""  # why it waits still; "" where it is published now


def publish_committed(
    ledger: Ledger, layout: Layout, *, publish_all: PublishAll = publish_all
) -> Iterator[Recovered]:
    """Rename each sealed attempt that the ledger took but nobody published.

    Cheap where there is nothing to do: published attempts are no longer under ``.attempts``.
    """
    waiting = sealed_attempts(layout)
    if not waiting:
        return
    fingerprints = {folder.parent.name for folder in waiting}
    ended = ledger.cells(states=["success"], fingerprints=fingerprints)
    records = {str(record.fingerprint): record for record in ended}
    late: dict[str, Path] = {}
    for folder, digest in waiting.items():
        record = records.get(folder.parent.name)
        if record is None or record.outcome is None or record.outcome.digest != digest:
            continue
        if is_published(layout, record.path, digest):
            continue  # by another runner, a moment ago
        late[record.path] = folder
    moves = [(folder, layout.published(path)) for path, folder in late.items()]
    for path, wrong in zip(late, publish_all(moves), strict=True):
        yield Recovered(path=path, problem=str(wrong or ""))


def remove_late_attempts(ledger: Ledger, layout: Layout) -> None:
    """Remove the attempts of published cells that a runner left which was killed as it woke from a
    sleep past its leases, before it could hear that another had published them."""
    leftovers = left_attempts(layout)  # before the ledger is asked: what is begun from now on stays
    if not leftovers:
        return
    for folder in too_late(
        layout, leftovers, ledger.cells(states=["success"], fingerprints=leftovers)
    ):
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are there
            folder.parent.rmdir()


def remove_empty_folders(layout: Layout) -> None:
    """Remove the folders of cells that have no attempt any more; a run that ends keeps none, and
    one that is killed leaves those that it meant for its next cells."""
    with contextlib.suppress(FileNotFoundError):  # nothing was run yet
        for folder in layout.attempts.iterdir():
            with contextlib.suppress(OSError):  # attempts are there
                folder.rmdir()
