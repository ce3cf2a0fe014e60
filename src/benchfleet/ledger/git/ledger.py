"""The ledger of machines that share nothing but a git repository.

Every verb is one transaction: it runs on the mirror, an SQLite file of this installation, is pushed
to the remote in one atomic push, and is rolled back if that is refused. A push moves the log of the
installation and, for each cell that it changes, the cell's ref from the object that was pulled to a
new one. So a worker with stale state is refused, pulls, and tries again, and no two logs ever
disagree about a cell.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.state import State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost, GitAway, GitDenied, LedgerError, LedgerUnreachable
from benchfleet.git.objects import Objects
from benchfleet.git.remote import Remote
from benchfleet.git.repack import Repacker
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.base import Clock, since_boot
from benchfleet.ledger.git.bulk_import import import_tables
from benchfleet.ledger.git.compaction import Compaction
from benchfleet.ledger.git.discovery import campaigns_at
from benchfleet.ledger.git.mirror_transaction import (
    MirrorTransaction,
    MirrorView,
    Verb,
    finishing,
    renewing,
)
from benchfleet.ledger.git.outbox import Outbox
from benchfleet.ledger.git.push_builder import Files
from benchfleet.ledger.git.replay import ACTS
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.sync import Sync
from benchfleet.ledger.git.transactions import RetryPause, Transactions
from benchfleet.ledger.table_copy import CopyableLedger, Row, Tables

GIT_LEASE_S = 1800.0  # seconds; a repository is no place for a heartbeat every few seconds
RETRY_TIMEOUT_S = 300.0  # seconds for a remote that is away, or refuses what it took before
MAX_AGE_S = 1.0  # seconds for which the last pull serves
LISTS_EVERY_S = 10.0  # seconds between two looks at lists of phases
_RENEWALS_PER_PUSH = 400
_OUTCOMES_PER_PUSH = 32


class GitLedger(CopyableLedger):
    """A ledger in the repository at `url`, made where there is none; without `create`, none raises
    `LedgerAbsent`.

    `folder` is where the installation keeps its mirror. Leases and back-offs are counted by `clock`
    from when this installation saw them begin; `wall` is only written down. A call waits up to
    `timeout` seconds for a remote that is away, a renewal for a fifth of a lease.
    """

    multi_host = True
    default_lease_s = GIT_LEASE_S
    stores_results = True
    keeps_outcomes = True

    def __init__(
        self,
        url: str,
        *,
        campaign: str,
        folder: Path,
        lease: float = GIT_LEASE_S,
        clock: Clock = since_boot,
        wall: Clock = time.time,
        timeout: float = RETRY_TIMEOUT_S,
        max_age: float = MAX_AGE_S,
        create: bool = True,
        files: Files | None = None,
        open_store: Callable[[Remote, Objects, str], Any] | None = None,
        host: str = "",
    ) -> None:
        self.store = Store(
            url, campaign=campaign, folder=folder, lease=lease, clock=clock, wall=wall, host=host
        )
        self.sync = Sync(self.store)
        try:
            with self.store.ledger_errors():
                self.sync.open(create, timeout)
        except BaseException:
            self.store.close()
            raise
        self._max_age, self._files, self._open_store = max_age, files, open_store
        self._transactions = Transactions(self.store, self.sync, timeout=timeout, files=files)
        self._compaction = Compaction(self.store, self.sync)
        self._repacker = Repacker(self.store.git)
        self._progress: WorkerProgress | None = None
        self.outbox = Outbox(self.store.folder / "outbox")

    @classmethod
    def campaigns(cls, url: str) -> Sequence[str]:
        """The campaigns whose ledgers are in the repository."""
        return campaigns_at(url)

    def close(self) -> None:
        self._repacker.close()
        self.store.close()

    # The verbs

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be done again
        self._transactions.refresh(self._max_age)
        return self._transactions.run_one(lambda tx: tx.enroll(declared, paths=paths))

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        """Claim no cell while the remote is away, and none whose outcome was not sent yet."""
        unsent = self.outbox.fingerprints()
        candidates = [name for name in candidates if name not in unsent]
        if not candidates or not limit:
            return []
        self._transactions.refresh(self._max_age)
        return self._transactions.run_unless_away(
            lambda tx: tx.claim(runner, candidates, limit), []
        )

    def report_progress(self, progress: WorkerProgress) -> None:
        """The next heartbeat takes it along: a repository is no place for pushes of its own."""
        self._progress = progress

    def progress(self) -> Sequence[WorkerProgress]:
        with self._view() as view:
            return view.progress()

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        renewed: list[Lease] = []
        for start in range(0, len(leases), _RENEWALS_PER_PUSH):
            renew = renewing(leases[start : start + _RENEWALS_PER_PUSH], self._progress)
            renewed += self._transactions.run_one(renew, timeout=self.store.lease / 5)
        return renewed

    def finish_all(
        self, ended: Sequence[tuple[Lease, Outcome]], timeout: float | None = None
    ) -> Sequence[ClaimLost | None]:
        """End all of them in one push. The outbox keeps outcomes that the remote did not take."""
        with self.outbox.hold(ended):
            return refusals(self._transactions.run(list(map(finishing, ended)), timeout=timeout))

    def keep(self, ended: Sequence[tuple[Lease, Outcome]]) -> None:
        self.outbox.add(ended)

    def resend(self) -> None:
        waiting = self.outbox.waiting()
        with suppress(LedgerUnreachable):
            if waiting:
                self.pull()  # which tells within a minute that a remote is away
            for start in range(0, len(waiting), _OUTCOMES_PER_PUSH):
                self.finish_all(waiting[start : start + _OUTCOMES_PER_PUSH], timeout=0.0)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        if leases:
            self._transactions.run_one(lambda tx: tx.release(leases, reason))

    def reap(self) -> Sequence[Fingerprint]:
        """Also send kept outcomes, and compact: one installation at a time, on average."""
        self.resend()
        return self.reap_expired()

    def reap_expired(self) -> Sequence[Fingerprint]:
        """`reap`, without sending kept outcomes."""
        self._transactions.refresh(self._max_age)
        expired = self._transactions.run_one(MirrorTransaction.reap)
        self._repacker.start()
        if random.random() * self.sync.active < 1.0:  # noqa: S311
            self._compaction.run_if_due()
        return expired

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        with self._view() as view:
            yield from view.cells(
                states=states, fingerprints=fingerprints, with_cell=with_cell, parts=parts
            )

    def record(self, event: Event, *, after: int | None = None) -> int:
        if event.kind in ACTS:
            self._transactions.refresh(self._max_age)
        return self._transactions.run_one(lambda tx: tx.record(event, after=after))

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        with self._view() as view:
            return view.events(since, fingerprints, kinds)

    def last_event(self) -> int:
        with self._view() as view:
            return view.last_event()

    @contextmanager
    def _view(self) -> Iterator[MirrorView]:
        self._transactions.refresh(self._max_age)
        with self.store.mirror.reading() as execute:
            yield MirrorView(execute, clock=self.store.clock, lease=self.store.lease)

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self._transactions.within(seconds)

    def problem(self) -> str:
        return self._transactions.problem

    # More than the verbs

    def read_age(self) -> float:
        return time.monotonic() - self.sync.pulled_at

    def pull(self) -> None:
        """Bring the mirror up to date. Raises LedgerUnreachable."""
        with self.store.ledger_errors():
            self.sync.pull()

    def run(self, verbs: Sequence[Verb], *, retry_pause: RetryPause | None = None) -> list[Any]:
        """Run several verbs in one push; see `Transactions.run`."""
        self.resend()
        return self._transactions.run(verbs, retry_pause=retry_pause)

    def interrupt(self) -> None:
        self.store.closing.set()
        self.store.git.interrupt()

    def last_known_event(self) -> int:
        """The number of the last event in the mirror, without a pull."""
        with self.store.mirror.reading() as execute:
            number: int = execute("last_numbers").fetchone()[1]
        return number

    def activity(self, seconds: float) -> tuple[int, int]:
        """After a pull: how many installations are active, and how many pushed in so many
        seconds."""
        self._transactions.refresh(0.0)
        with self.store.mirror.reading() as execute:
            tips = self.store.mirror.tips(execute)
        since, logs = self.store.clock() - seconds, self.store.refs.logs
        lately = sum(ref.startswith(logs) and moved >= since for ref, (_, moved) in tips.items())
        return self.sync.active, lately

    def compact(self) -> int:
        """Remove the refs of cells that ended more than a day ago; how many."""
        with self.store.ledger_errors():
            return self._compaction.run()

    def shared_files(self) -> SharedFiles:
        return self.store.shared_files(every=lambda: LISTS_EVERY_S)

    def results_store(self) -> Any:
        """The results in the repository. Raises LedgerError if it was opened without them."""
        if self._open_store is None:
            raise LedgerError(f"{self.store.label} was opened without its results")
        with suppress(GitAway, GitDenied):  # the store raises it on use
            self.sync.complete_results()
        return self._open_store(self.store.remote, self.store.objects, self.store.label)

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        self.pull()
        with self.store.mirror.tables(self.store.wall() - self.store.clock()) as tables:
            yield tables

    def fill(self, tables: Tables, *, seen: ProgressCallback = ignore_progress) -> None:
        with self.store.ledger_errors():
            import_tables(self.store, self.sync, tables, self._files, seen)


def refusals(answers: Iterable[Any]) -> list[ClaimLost | None]:
    """What `finish_all` answers. Raises any other error."""
    results = list(answers)
    for answer in results:
        if answer is not None and not isinstance(answer, ClaimLost):
            raise answer
    return results
