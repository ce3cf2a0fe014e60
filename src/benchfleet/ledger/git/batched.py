"""A git ledger on a server that others use too: calls wait, and share the next push.

A hosted repository wants about six pushes a minute from all who use it. So each installation lets
ten seconds pass between two pushes for every active installation, and calls meanwhile share the
next push. Cells are claimed ahead, one for each that runs. Finishes and renewals wait for the push;
events and releases do not. A finish returns when the remote has it, as everywhere. A push that the
remote does not take is tried again at the same pace, until it is taken. Meanwhile each call that
waits for a push, and each claim, raises LedgerAway.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.progress_callback import ProgressCallback, ignore_progress
from benchfleet.domain.state import State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.forwarding import ForwardingLedger
from benchfleet.ledger.git.ledger import GitLedger, refusals
from benchfleet.ledger.git.mirror_transaction import (
    MirrorTransaction,
    Verb,
    finishing,
    renewing,
)
from benchfleet.ledger.git.push_queue import INTERVAL_S, PendingCall, PushQueue
from benchfleet.ledger.git.replay import ACTS
from benchfleet.ledger.table_copy import CopyableLedger, Row, Tables

LISTS_INTERVALS = 6  # of an installation's pushes, between two looks at lists of phases


class BatchedLedger(ForwardingLedger, CopyableLedger):
    """Another ledger in git, whose calls a thread pushes together."""

    inside: GitLedger

    def __init__(
        self,
        inside: GitLedger,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        threads: bool = True,
        interval: float = INTERVAL_S,
    ) -> None:
        super().__init__(inside)
        self.hosted = True
        self._lock = threading.Lock()
        self._queue = PushQueue(
            inside,
            clock=clock,
            chance=chance or random.Random(),  # noqa: S311
            threads=threads,
            interval=interval,
            requests=self._take_requests,
        )
        self._ahead: dict[str, Claim] = {}  # claimed and not begun, by fingerprint
        self._begun: set[str] = set()  # fingerprints of what runs
        self._begun_since = 0  # how many began since the last push
        self._claim_requests: list[tuple[RunnerId, Sequence[str], int]] = []  # what to claim next
        self._requested: set[tuple[str, str]] = set()  # runners and cells of a push under way
        self._renewing: tuple[Lease, ...] | None = None  # what the next push renews
        self._progress: WorkerProgress | None = None
        self._lost: set[tuple[str, int]] = set()  # fingerprints and tokens, not reported yet

    def step(self) -> bool:
        """Push what waits, if it is due; whether something was pushed."""
        return self._queue.step()

    def _take_requests(self) -> list[tuple[Verb, Callable[[Any], None]]]:
        """What the next push claims ahead."""
        with self._lock:
            requests, self._claim_requests, self._begun_since = self._claim_requests, [], 0
            requested = [{(runner, name) for name in names} for runner, names, _ in requests]
            self._requested.update(*requested)
        return [
            (_claiming(*request), partial(self._claimed, cells))
            for request, cells in zip(requests, requested, strict=True)
        ]

    def _claimed(self, requested: Collection[tuple[str, str]], claims: Any) -> None:
        with self._lock:
            if not isinstance(claims, BaseException):
                self._ahead.update((claim.lease.fingerprint, claim) for claim in claims)
            self._requested.difference_update(requested)

    def _is_ahead(self, running: CellRecord) -> bool:
        """Whether the cell is claimed ahead; also where the answer of its push is yet to come."""
        name = running.fingerprint
        requested = (running.runner, name) in self._requested and name not in self._begun
        return requested or name in self._ahead

    # The verbs

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        """Those of the candidates that were claimed ahead and still are; the next push claims more.
        A candidate is a cell that does not run here any more. Raises LedgerAway if none was claimed
        ahead, and the last push failed."""
        unsent = self.inside.outbox.fingerprints()
        candidates = [name for name in candidates if name not in unsent]
        with self._lock:
            leases = [self._ahead[name].lease for name in candidates if name in self._ahead]
        ahead = [lease.fingerprint for lease in leases]
        valid = {
            (record.fingerprint, record.token)
            for record in self.inside.cells(states=["running"], fingerprints=ahead)
        }
        with self._lock:
            for lease in leases:  # released, reaped or cancelled, and not claimed again meanwhile
                claim = self._ahead.get(lease.fingerprint)
                lost = (lease.fingerprint, lease.token) not in valid
                if lost and claim and claim.lease == lease:
                    del self._ahead[lease.fingerprint]
            names = [name for name in candidates if name in self._ahead][:limit]
            if not names and (away := self._queue.away):
                raise away
            claims = [self._ahead.pop(name) for name in names]
            self._begun.difference_update(candidates)
            self._begun.update(names)
            mine = sum(name in self._ahead for name in candidates)
            self._begun_since += len(names)
            # One for each that runs, or where cells end before the next push, one more than began.
            short = self._begun_since + 1 if self._begun_since > len(self._begun) else 0
            missing = max(limit - mine, max(len(self._begun), short) - len(self._ahead))
            rest = [name for name in candidates if name not in self._begun]
            if missing > 0 and rest:
                # It replaces an older request for some of these cells, not those of other slots.
                others = [one for one in self._claim_requests if set(one[1]).isdisjoint(rest)]
                self._claim_requests = [*others, (runner, rest, missing)]
                self._queue.wake()
        return claims

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        with self.inside.outbox.hold(ended):
            if away := self._queue.away:
                raise away
            calls = [self.finish_later(lease, outcome) for lease, outcome in ended]
            for call in calls:
                call.done.wait()
            return refusals(call.answer for call in calls)

    def finish_later(self, lease: Lease, outcome: Outcome) -> PendingCall:
        """`finish` with the next push, without waiting for it."""
        self._ended([lease])
        return self._queue.add(finishing((lease, outcome)), awaited=True)

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """All but those that the last push lost; the next push renews them."""
        with self._lock:
            lost, self._lost = self._lost, set()
            self._begun.difference_update(fingerprint for fingerprint, _ in lost)
            renewing, self._renewing = self._renewing, tuple(leases)
        if renewing is None:
            self._queue.add(self._renew)
        return [lease for lease in leases if (lease.fingerprint, lease.token) not in lost]

    def report_progress(self, progress: WorkerProgress) -> None:
        self._progress = progress

    def _renew(self, tx: MirrorTransaction) -> None:
        with self._lock:
            leases = self._renewing or ()
            ahead = [claim.lease for claim in self._ahead.values()]
        answer = renewing([*leases, *ahead], self._progress)(tx)
        renewed = {(lease.fingerprint, lease.token) for lease in answer}
        with self._lock:
            self._renewing = None
            self._lost |= {(one.fingerprint, one.token) for one in leases} - renewed
            for lease in ahead:
                if (lease.fingerprint, lease.token) not in renewed:
                    self._ahead.pop(lease.fingerprint, None)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        self._ended(leases)
        if leases:
            self._queue.add(lambda tx: tx.release(leases, reason))

    def _ended(self, leases: Sequence[Lease]) -> None:
        with self._lock:
            self._begun.difference_update(lease.fingerprint for lease in leases)

    def record(self, event: Event, *, after: int | None = None) -> int:
        """An event is pushed at once if it acts on a cell, since a person waits for it, or if it
        may be refused."""
        if event.kind in ACTS or after is not None:
            return self.inside.record(event, after=after)
        self._queue.add(lambda tx: tx.record(event))
        return self.inside.last_known_event() + 1

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        return self.inside.enroll(cells, paths=paths)

    def reap(self) -> Sequence[Fingerprint]:
        return self.inside.reap_expired()

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        """A cell that is claimed ahead is still pending for those who ask here."""
        queried = states
        if states is not None and "pending" in states:
            queried = {*states, "running"}
        for record in self.inside.cells(
            states=queried, fingerprints=fingerprints, with_cell=with_cell, parts=parts
        ):
            if record.state == "running":
                with self._lock:
                    is_ahead = self._is_ahead(record)
                if is_ahead:
                    record = replace(record, state="pending", runner="", expires_in=None)
            if states is None or record.state in states:
                yield record

    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        return self.inside.events(since, fingerprints, kinds)

    def last_event(self) -> int:
        return self.inside.last_event()

    def shared_files(self) -> SharedFiles:
        return self.inside.store.shared_files(
            every=lambda: LISTS_INTERVALS * self._queue.pace, wait_to_push=self._queue.take_turn
        )

    def tables(self) -> AbstractContextManager[Iterator[tuple[str, Iterable[Row]]]]:
        return self.inside.tables()

    def fill(self, tables: Tables, *, seen: ProgressCallback = ignore_progress) -> None:
        self.inside.fill(tables, seen=seen)

    def close(self) -> None:
        """Give back what was claimed ahead, and push what waits, at once."""
        self._queue.stop()
        with self._lock:
            self._claim_requests = []
            ahead = [claim.lease for claim in self._ahead.values()]
            self._ahead.clear()
        if ahead:
            self._queue.add(lambda tx: tx.release(ahead, "its runner ended"))
        self._queue.close()
        self.inside.close()


def _claiming(runner: RunnerId, candidates: Sequence[str], limit: int) -> Verb:
    return lambda tx: tx.claim(runner, candidates, limit)
