"""The state of a run: its counts, whether it may begin cells, why it ends, and its observer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from benchfleet.domain.budget import Budget
from benchfleet.domain.cell import Cell
from benchfleet.domain.usage import Usage
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.history import with_skipped
from benchfleet.runner.disk_guard import DiskGuard, DiskSpace
from benchfleet.runner.events import EventQueue
from benchfleet.runner.progress import Notice, NoticeKind, Observer, Progress

SILENT_S = 10.0  # seconds after which a run reports what its start waits for


class RunState:
    """The state that all components of a run share. `stop_waiting` is set when none may wait."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        inbox: EventQueue,
        cells: Sequence[Cell],
        observer: Observer,
        disk_space: Callable[[], DiskSpace],
        stop_waiting: threading.Event,
        budget: Budget | None = None,
    ) -> None:
        self._ledger = ledger
        self._fingerprints = frozenset(str(cell.fingerprint) for cell in cells)
        self.yielded: frozenset[str] = frozenset()  # cells that are left to other runners
        self._inbox, self._observe = inbox, observer
        floor = max((cell.limits.disk or 0 for cell in cells), default=0) or None
        self._disk_guard = DiskGuard(disk_space, floor=floor)
        self._budget, self._is_budget_warned = budget, False
        self.stop_waiting = stop_waiting
        self.progress = Progress(total=len(self._fingerprints))
        self.interrupts = 0
        self.broken = ""  # why the run ends early

    @property
    def ends(self) -> bool:
        """Whether no more cells begin."""
        return bool(self.interrupts or self.broken)

    @property
    def short_of_disk(self) -> bool:
        """Whether no cell begins until the disk has room."""
        return self._disk_guard.short

    def add_cells(self, fingerprints: Iterable[str]) -> None:
        """Add cells to the run."""
        self._fingerprints = self._fingerprints.union(fingerprints)
        self.count()

    def yield_cells(self, fingerprints: Iterable[str]) -> None:
        """Leave these cells, and no others, to other runners."""
        self.yielded = frozenset(fingerprints)
        self.count()

    def count(self) -> bool:
        """Read the counts from the ledger, with other runners' work; False where it is away."""
        about = self._fingerprints - self.yielded
        self.progress.total = len(about)
        try:
            records = with_skipped(self._ledger, self._ledger.cells(fingerprints=about))
            self.progress.recount([(record.fingerprint, record.state) for record in records])
            self.progress.counted = self._inbox.now()
        except LedgerAway:
            return False
        return True

    def report_reaped(self, fingerprints: Collection[str]) -> None:
        """Warn of cells whose leases expired."""
        message = "the lease of its runner expired; the cell is pending again"
        with contextlib.suppress(LedgerAway):  # they are taken back all the same
            for record in self._ledger.cells(fingerprints=fingerprints) if fingerprints else ():
                self.notify("warning", cell=record.path, message=message)

    def spend(self, usage: Usage, *, rented: bool = False) -> None:
        """Count the cost of an attempt that ended, before its slot takes another cell. What rented
        machines cost is counted by their rentals."""
        if self._budget:
            if not rented:
                self._budget.spend(usage)
            self.check_budget()

    def check_budget(self) -> bool:
        """End the run, after the cells that run now, if the budget is spent; whether it now is."""
        if not self._budget or self.broken:
            return False
        budget = self._budget
        self.end_for_budget(budget.problem)
        if budget.state == "nearly_spent" and not self._is_budget_warned:
            self._is_budget_warned = True
            self.notify("budget_used", message=budget.text, budget=budget.limit)
        return bool(self.broken)

    def end_for_budget(self, problem: str) -> None:
        """End the run because too little of the budget remains; ``""`` if enough does."""
        self.broken = problem
        if problem and self._budget:
            self.notify("budget_spent", message=problem, budget=self._budget.limit)

    def check_disk(self) -> None:
        """Check the free space of the disk."""
        if message := self._disk_guard.check(self._inbox.now()):
            self.notify("warning", message=message)

    def disk_refused(self, *, of: str = "results") -> None:
        """Begin no cell until the disk `of` these has room: it refused a write."""
        if message := self._disk_guard.refused(self._inbox.now(), of=of):
            self.notify("warning", message=message)

    def wrote(self) -> None:
        """Reset the pause after refused writes."""
        self._disk_guard.wrote()

    @contextlib.contextmanager
    def waiting_for(self, what: str) -> Iterator[None]:
        """Send a notice if the work inside takes long, and another once it is known why."""
        done = threading.Event()

        def tell() -> None:
            sent = ""
            while not done.wait(SILENT_S):
                problem = self._ledger.problem()
                message = f"{what}: {problem}" if problem else what
                if message != sent:
                    self.notify("waiting", message=message)
                sent = message

        threading.Thread(target=tell, name="patience", daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def notify(
        self, kind: NoticeKind, *, cell: str = "", slot: str = "", message: str = "", **data: Any
    ) -> None:
        """Send a notice to the observer."""
        notice = Notice(
            kind=kind, cell=cell, slot=slot, message=message, data=data, ending=self.ends
        )
        self._observe(notice, self.progress)
