"""Putting right what a crash left between the ledger's commit and the rename."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import PublishAll, publish_all
from benchfleet.results.read import is_published, sealed_attempts


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A result that the ledger took and nobody had published."""

    path: str
    problem: str = ""  # why it waits still; "" where it is published now


def publish_what_was_committed(
    ledger: Ledger, layout: Layout, *, publish_all: PublishAll = publish_all
) -> Iterator[Recovered]:
    """Rename each sealed attempt that the ledger took but nobody published.

    Cheap where there is nothing to do: published attempts are no longer under ``.attempts``.
    """
    waiting = sealed_attempts(layout)
    if not waiting:
        return
    fingerprints = {folder.parent.name for folder in waiting}
    records = ledger.cells(states=["success"], among=fingerprints)
    known = {str(record.fingerprint): record for record in records}
    late: dict[str, Path] = {}
    for folder, digest in waiting.items():
        record = known.get(folder.parent.name)
        if record is None or record.outcome is None or record.outcome.digest != digest:
            continue
        if is_published(layout, record.path, digest):
            continue  # by another runner, a moment ago
        late[record.path] = folder
    moves = [(folder, layout.published(path)) for path, folder in late.items()]
    for path, wrong in zip(late, publish_all(moves), strict=True):
        yield Recovered(path=path, problem=str(wrong or ""))
