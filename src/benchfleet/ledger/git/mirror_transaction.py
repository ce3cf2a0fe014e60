"""The ledger's verbs on the mirror, within a transaction that somebody else commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.state import FINAL_STATES
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import BenchfleetError, ClaimLost
from benchfleet.ledger.base import Clock
from benchfleet.ledger.git import log
from benchfleet.ledger.git.mirror import Writer
from benchfleet.ledger.named_queries import Execute
from benchfleet.ledger.sqlite.base import SqliteBase


class MirrorView(SqliteBase):
    """The verbs over an open connection to the mirror."""

    def __init__(self, execute: Execute, *, clock: Clock, lease: float) -> None:
        super().__init__(clock=clock, lease=lease)
        self.execute = execute

    @contextmanager
    def _writing(self, *, synced: bool = True) -> Iterator[Execute]:
        yield self.execute

    @contextmanager
    def _reading(self) -> Iterator[Execute]:
        yield self.execute

    def close(self) -> None:
        """Nothing: the owner of the connection closes it."""


class MirrorTransaction(MirrorView):
    """The verbs in a transaction that ends with a push, and what the push has to say."""

    def __init__(self, writer: Writer, *, clock: Clock, wall: Clock, lease: float) -> None:
        super().__init__(writer.execute, clock=clock, lease=lease)
        self._execute_many, self._wall = writer.execute_many, wall
        self.cells_before, self.events_before = self._counts()
        self.new_terms: dict[int, str] = {}  # of known cells, by ordinal
        self.renewed: list[str] = []  # fingerprints
        self.reported: list[WorkerProgress] = []  # for the next heartbeat
        self.finished: list[tuple[Lease, Outcome]] = []
        self.without_effect: set[int] = set()  # events of acting kinds that changed no cell
        self.ordered: set[int] = set()  # events of a subject, in an order that all agree on

    def attempt(self, verb: Verb) -> Any:
        """The answer of a verb. An error of ours is an answer too, and undoes that verb alone."""
        lists: tuple[list[Any], ...] = (self.renewed, self.reported, self.finished)
        terms, lengths = dict(self.new_terms), [len(each) for each in lists]
        self.execute("savepoint")
        try:
            return verb(self)
        except BenchfleetError as error:
            self.execute("rollback_savepoint")
            self.new_terms = terms
            for each, length in zip(lists, lengths, strict=True):
                del each[length:]
            return error
        finally:
            self.execute("release_savepoint")

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        renewed = super().renew(leases)
        self.renewed += [lease.fingerprint for lease in renewed]
        return renewed

    def report_progress(self, progress: WorkerProgress) -> None:
        super().report_progress(progress)
        self.reported.append(progress)

    def _finish(self, execute: Execute, lease: Lease, outcome: Outcome) -> ClaimLost | None:
        events = self._counts()[1]
        refused = super()._finish(execute, lease, outcome)
        if self._counts()[1] > events:  # else it was refused, or finished before
            self.finished.append((lease, outcome))
        return refused

    def record(self, event: Event, *, after: int | None = None) -> int:
        row = self.execute("cell_state", fingerprint=event.fingerprint).fetchone()
        number = super().record(event, after=after)
        if after is not None:
            self.ordered.add(number)
        ended = row is not None and row[1] in FINAL_STATES
        if row is None or ended != (event.kind == "retry_asked"):
            self.without_effect.add(number)
        return number

    def _each(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = list(rows)
        if name == "change_terms":
            self.new_terms.update((row["ordinal"], row["terms"]) for row in rows)
        self._execute_many(name, rows)

    def _append(
        self,
        execute: Execute,
        kind: str,
        fingerprint: str,
        data: Mapping[str, Any],
        *,
        at: float | None = None,
    ) -> int:
        if kind == "claimed":
            data = {**data, **log.lease_data(self._lease)}
        return super()._append(execute, kind, fingerprint, data, at=self._wall())

    def _counts(self) -> tuple[int, int]:
        """How many cells and events there are."""
        cells, events = self.execute("last_numbers").fetchone()
        return cells, events


Verb = Callable[[MirrorTransaction], Any]


def finishing(ended: tuple[Lease, Outcome]) -> Verb:
    """`finish` as a verb of a transaction."""
    return lambda tx: tx.finish(*ended)


def renewing(leases: Sequence[Lease], progress: WorkerProgress | None) -> Verb:
    """`renew` as a verb of a transaction, with the progress that was reported last."""

    def renew(tx: MirrorTransaction) -> Sequence[Lease]:
        if progress is not None:
            tx.report_progress(progress)
        return tx.renew(leases)

    return renew
