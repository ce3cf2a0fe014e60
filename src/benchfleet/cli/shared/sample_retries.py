"""Cells that succeeded though some of their samples failed for good: asking these once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.sample_end import lacks_answer, share_name
from benchfleet.results.layout import SAMPLES, Layout
from benchfleet.results.publish import move
from benchfleet.results.read import is_published
from benchfleet.results.samples import read_samples

_SHARES = (share_name("error"), share_name("refused"))


def with_failed_samples(layout: Layout, records: Iterable[CellRecord]) -> Iterator[CellRecord]:
    """The done cells of which a sample failed, if their result is in this folder."""
    for record in records:
        outcome = record.outcome if record.state == "success" else None
        if outcome is None or not any(outcome.metrics.get(name) for name in _SHARES):
            continue
        if is_published(layout, record.path, outcome.digest):
            samples = read_samples(layout.published(record.path) / SAMPLES)
            if any(map(lacks_answer, samples.values())):
                yield record


def unpublish(layout: Layout, record: CellRecord) -> None:
    """Move the result to the cell's attempts, where the next attempt finds its samples.

    If the ledger still calls the cell done then, the next run publishes it again."""
    folder = layout.attempts_of(record.fingerprint)
    folder.mkdir(parents=True, exist_ok=True)
    move(layout.published(record.path), folder / f"{record.attempt}-{record.token}")
