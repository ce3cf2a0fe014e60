"""Putting right what a crash left between the ledger's commit and the rename."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from benchfleet.ledger.base import Ledger
from benchfleet.results import layout as names
from benchfleet.results.layout import Layout
from benchfleet.results.write import publish


def publish_what_was_committed(ledger: Ledger, layout: Layout) -> Iterator[str]:
    """Rename each sealed attempt that the ledger took but nobody published; yields their paths.

    Cheap where there is nothing to do: published attempts are no longer under ``.attempts``.
    """
    if not layout.attempts.is_dir():
        return
    sealed = {}
    for file in layout.attempts.glob(f"*/*/{names.CELL}"):
        with contextlib.suppress(FileNotFoundError):  # its own runner publishes it just now
            sealed[file.parent] = hashlib.sha256(file.read_bytes()).hexdigest()
    if not sealed:
        return
    fingerprints = {folder.parent.name for folder in sealed}
    records = {record.fingerprint: record for record in ledger.cells(among=fingerprints)}
    for folder, digest in sealed.items():
        record = records.get(folder.parent.name)  # type: ignore[call-overload]
        if record is None or record.outcome is None or record.outcome.digest != digest:
            continue
        public = layout.published(record.path)
        if not public.exists():
            publish(folder, public)
            yield record.path
