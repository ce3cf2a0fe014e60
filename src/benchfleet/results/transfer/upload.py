"""Uploads published results, during the run and at its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.part import is_part_id, whole_of
from benchfleet.errors import LedgerError, ResultsError, StoreUnreachable
from benchfleet.ledger.base import Ledger
from benchfleet.results.disk import digest_of
from benchfleet.results.layout import CELL, Layout
from benchfleet.results.publish import Moves, PublishAll, publish_all
from benchfleet.results.read import is_published, published_folders, sealed
from benchfleet.results.transfer.targets import Target
from benchfleet.results.upload_queue import Entry

_RETRY_DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # the last one repeats


class Uploader:
    """Uploads the queued results of a results folder. A result that cannot be uploaded stays in the
    queue, and the next run uploads it first."""

    def __init__(
        self,
        ledger: Ledger,
        layout: Layout,
        target: Target,
        *,
        publish_all: PublishAll = publish_all,
        notify: Callable[[str], object] = lambda message: None,
    ) -> None:
        self._ledger, self._layout, self._target = ledger, layout, target
        self._queue, self._publish_all = target.queue, publish_all
        self._notify, self._reported_problem = notify, ""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="uploader", daemon=True)
        self.problem = ""  # why the last upload failed

    def publish_all(self, moves: Moves) -> Sequence[ResultsError | None]:
        """Queue the results, then publish them as `benchfleet.results.publish.publish_all`."""
        self._queue.add([_entry(self._layout, folder, public) for folder, public in moves])
        problems = self._publish_all(moves)
        self._wake.set()
        return problems

    def start(self) -> None:
        """Upload in a thread from now on."""
        self._enqueue_existing()
        self._thread.start()

    def stop(self) -> None:
        """Upload the rest once, then end the thread; see `ended`."""
        self._stopping.set()
        self._wake.set()

    @property
    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    @property
    def queued(self) -> int:
        """Results that are not uploaded yet."""
        return len(self._queue)

    def _enqueue_existing(self) -> None:
        """Queue all published results if the queue was for another store, or is new."""
        if self._queue.is_for(self._target.display_url):
            return
        entries = []
        for folder in published_folders(self._layout.root):
            with contextlib.suppress(ResultsError):
                entries.append(_entry(self._layout, folder, folder))
        self._queue.add(entries)
        self._queue.assign_to(self._target.display_url)

    def _run(self) -> None:
        failures, checked = 0, False
        while True:
            self._wake.clear()
            stopping = self._stopping.is_set()  # read after the clear: no stop is missed
            try:
                if not checked:  # a wrong address is reported before the first result
                    self._target.check()
                    checked = True
                self._enqueue_existing()  # a run that begins may have entered results
                failures = 0 if self.upload() else failures + 1
            except Exception as error:  # noqa: BLE001 - shown at the end; the run goes on
                self.problem, failures = str(error) or type(error).__name__, failures + 1
            if stopping:
                return
            self._report_problem()
            if failures:
                self._stopping.wait(_RETRY_DELAYS_S[min(failures, len(_RETRY_DELAYS_S)) - 1])
            else:
                self._wake.wait()

    def _report_problem(self) -> None:
        """Notify once that uploads fail, and once that they work again."""
        if self.problem and not self._reported_problem:
            self._notify(f"uploads fail and are retried: {self.problem}")
        elif self._reported_problem and not self.problem:
            self._notify(f"uploads to {self._target.display_url} work again")
        self._reported_problem = self.problem

    def upload(self) -> bool:
        """Upload every queued result; whether none has to be retried."""
        entries = self._queue.entries()
        self.problem = ""
        for entry in self._uploadable(entries):
            try:
                self._target.upload(entry)
            except (StoreUnreachable, LedgerError) as error:
                self.problem = str(error)
                return False
            except Exception as error:  # noqa: BLE001 - the others are uploaded
                self.problem = str(error) or type(error).__name__
                continue
            self._queue.drop(entry)
        return not self.problem

    def _uploadable(self, entries: list[Entry]) -> Iterator[Entry]:
        """The entries whose result is here and has the digest that the ledger has. A part whose
        cell has its result is not needed any more."""
        try:
            among = {entry.fingerprint for entry in entries}
            ask = self._ledger.cells
            records = [*ask(states=["success"], fingerprints=among)] if among else []
            needless = self._joined_parts(records)
            digests = {str(r.fingerprint): r.outcome.digest for r in records if r.outcome}
        except LedgerError as error:
            self.problem = str(error)
            return
        for entry in entries:
            if entry.fingerprint in needless:
                self._queue.drop(entry)
                continue
            # Asked first: attempts are removed only once their result is public.
            has_attempts = self._layout.attempts_of(entry.fingerprint).exists()
            is_here = is_published(self._layout, entry.path, entry.digest)
            if is_here and digests.get(entry.fingerprint) == entry.digest:
                yield entry
            elif entry.fingerprint in digests if is_here else not has_attempts:
                self._queue.drop(entry)

    def _joined_parts(self, records: Iterable[CellRecord]) -> set[str]:
        """Those of the cells that are parts of a cell with a result."""
        parts = [record.fingerprint for record in records if is_part_id(record.path)]
        if not parts:
            return set()
        wholes = {
            str(record.fingerprint): str(whole_of(record.cell).fingerprint)
            for record in self._ledger.cells(fingerprints=parts, with_cell=True)
            if record.cell is not None
        }
        names = {*wholes.values()}
        done = self._ledger.cells(states=["success"], fingerprints=names)
        joined = {str(record.fingerprint) for record in done}
        return {part for part, whole in wholes.items() if whole in joined}


def _entry(layout: Layout, folder: Path, public: Path) -> Entry:
    content, _ = sealed(folder)
    return Entry(
        fingerprint=content["fingerprint"],
        path=public.relative_to(layout.root).as_posix(),
        digest=digest_of(folder / CELL),
    )
