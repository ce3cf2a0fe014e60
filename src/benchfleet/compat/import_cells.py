"""Publish results of elsewhere as those of a campaign's cells."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import make_folder
from benchfleet.results.layout import Layout
from benchfleet.results.upload_queue import UploadQueue
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.recovery.adopt import Ended, finish_cells, registered
from benchfleet.runner.resources.local_host import this_host
from benchfleet.study import Study

T = TypeVar("T")
Seal = Callable[[AttemptFolder, Claim, Cell, T], Outcome]


@dataclass(frozen=True, kw_only=True)
class Published(Generic[T]):
    """What became of the results."""

    published: int
    already_done: int
    busy: Sequence[T]  # of cells that another runner runs now


def publish_results(
    ledger: Ledger,
    layout: Layout,
    results: Iterable[tuple[Cell, T]],
    seal: Seal[T],
    *,
    runner: RunnerId,
    pause: Callable[[float], None] = time.sleep,
    seen: ProgressCallback = ignore_progress,
) -> Published[T]:
    """Publish each result as its cell's, which is enrolled; `seal` writes its files."""
    results = list(results)
    records = ledger.cells(fingerprints={str(cell.fingerprint) for cell, _ in results})
    states = {record.fingerprint: record.state for record in records}
    waiting: dict[str, tuple[Cell, T]] = {}
    already_done = 0
    for cell, result in results:
        state = states[cell.fingerprint]
        if state == "success":
            already_done += 1
            continue
        if state not in ("pending", "running"):
            ledger.record(Event(kind="retry_asked", fingerprint=cell.fingerprint))
        waiting[cell.fingerprint] = cell, result

    def sealed(claim: Claim, one: tuple[Cell, T]) -> Ended:
        folder = AttemptFolder(layout.attempt(claim.lease))
        return seal(folder, claim, *one), (folder.folder, layout.published(claim.path))

    unfinished = finish_cells(ledger, runner, waiting, sealed, pause=pause, seen=seen)
    busy = [result for _, result in unfinished]
    return Published(published=len(waiting) - len(busy), already_done=already_done, busy=busy)


@contextmanager
def importing(study: Study, cells: Iterable[Cell]) -> Iterator[tuple[Ledger, RunnerId]]:
    """The ledger with these cells, and a runner that it knows while this lasts."""
    with closing(study.open_ledger()) as ledger:
        study.record_campaign(ledger)
        ledger.enroll(list(cells))
        runner = RunnerId(f"import-{os.urandom(8).hex()}")
        make_folder(study.layout.root)
        local_host = this_host(host=study.host, folder=study.layout.own_id())
        try:
            with registered(ledger, runner, local_host):
                yield ledger, runner
        finally:
            for folder in (study.layout.outbox, study.layout.cache_outbox):
                UploadQueue(folder).unassign()


def sealed_outcome(
    folder: AttemptFolder, claim: Claim, cell: Cell, verdict: Verdict, *, host: str = ""
) -> Outcome:
    """Seal the folder; the outcome of its attempt."""
    sealed = folder.seal(cell, claim.path, verdict)
    return Outcome(
        state="success",
        digest=sealed.digest,
        metrics=sealed.metrics,
        reported=sealed.reported,
        seconds=verdict.seconds,
        host=host,
    )
