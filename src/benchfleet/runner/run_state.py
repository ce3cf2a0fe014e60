"""How a run stands: its counts, whether it may begin anything, why it ends, and who is told."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerAway
from benchfleet.ledger.base import Ledger
from benchfleet.runner.disk_guard import DiskGuard, DiskSpace
from benchfleet.runner.events import EventQueue
from benchfleet.runner.progress import Notice, NoticeKind, Observer, Progress


class RunState:
    """What those who see to parts of one run share. `ending` is set when nothing is to be waited
    for any more."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        inbox: EventQueue,
        cells: Sequence[Cell],
        observer: Observer,
        disk_space: Callable[[], DiskSpace],
        ending: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._fingerprints = frozenset(str(cell.fingerprint) for cell in cells)
        self._given_up: frozenset[str] = frozenset()
        self._inbox, self._observer = inbox, observer
        floor = max((cell.limits.disk or 0 for cell in cells), default=0) or None
        self._disk_guard = DiskGuard(disk_space, floor=floor)
        self.ending = ending
        self.progress = Progress(total=len(self._fingerprints))
        self.interrupts = 0
        self.broken = ""  # why the run ends early

    @property
    def over(self) -> bool:
        """Whether nothing is begun any more."""
        return bool(self.interrupts or self.broken)

    @property
    def short_of_room(self) -> bool:
        """Whether nothing is begun until the disk has room."""
        return self._disk_guard.short

    def take_in(self, fingerprints: Iterable[str]) -> None:
        """The run is about these cells too."""
        self._fingerprints = self._fingerprints.union(fingerprints)
        self.count()

    def give_up(self, fingerprints: Iterable[str]) -> None:
        """Of all that the run was about, these cells, and no others, are others' now."""
        self._given_up = frozenset(fingerprints)
        self.count()

    def count(self) -> bool:
        """Take the counts from the ledger, where other runners' work shows too. Where that is away
        they stay as they were, and this is false."""
        about = self._fingerprints - self._given_up
        self.progress.total = len(about)
        try:
            records = self._ledger.cells(fingerprints=about)
            self.progress.recount([(record.fingerprint, record.state) for record in records])
            self.progress.counted = self._inbox.now()
        except LedgerAway:
            return False
        return True

    def tell_reaped(self, fingerprints: Collection[str]) -> None:
        """Say of cells that they were taken back from the dead."""
        told = "the lease of its runner ran out; taken back"
        with contextlib.suppress(LedgerAway):  # they are taken back all the same
            for record in self._ledger.cells(fingerprints=fingerprints) if fingerprints else ():
                self.say("warning", cell=record.path, message=told)

    def see_room(self) -> None:
        """Look at the disk."""
        if said := self._disk_guard.look(self._inbox.now()):
            self.say("warning", message=said)

    def refused(self, *, of: str = "results") -> None:
        """The disk `of` these took no more: begin nothing until it has room."""
        if said := self._disk_guard.refused(self._inbox.now(), of=of):
            self.say("warning", message=said)

    def wrote(self) -> None:
        """A result was written."""
        self._disk_guard.wrote()

    def say(
        self, kind: NoticeKind, *, cell: str = "", slot: str = "", message: str = "", **data: Any
    ) -> None:
        """Tell whoever watches."""
        notice = Notice(kind=kind, cell=cell, slot=slot, message=message, data=data)
        self._observer(notice, self.progress)
