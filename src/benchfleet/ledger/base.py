"""The ledger contract: where every cell's truth is kept.

Whoever writes a new back-end reads this file alone, and proves it with
`benchfleet.testing.LedgerContract`.

Time. A ledger has one clock of its own and compares everything by it; no caller ever hands in
a time of day. Durations that cross the contract are seconds from the moment of the answer.

Life of a cell. `enroll` makes it ``pending``. `claim` makes it ``running`` and hands out a
`Lease`. `finish` gives it a final state, or, with `Outcome.retry_in`, makes it ``pending``
again after that time. `release` makes it ``pending`` at once and uses up no try. `reap` does
the same for leases that ran out. Nothing else changes a state but `record` with one of the
events below.

Fencing. A cell's `token` grows with every claim and every release, never falls, and stands in
each lease. `renew` and `finish` touch a cell only while its token is the lease's:

* `renew` of a lease that ran out is good while nobody reaped it.
* `finish` is good once, while no newer token exists, even after the lease ran out or was reaped.
* Asked again with the same lease and the same outcome digest and state, `finish` is silent:
  whoever does not know whether a commit went through may ask again.
* Anything else raises `ClaimLost`; the writer stops and publishes nothing.

So at no time do two unexpired leases hold one cell, and a cell never has two results.

Paths. Each cell's results path is allotted at enrolment and kept for ever. The first holder
keeps `cell.path(marked=False)`; where that equals, holds or lies inside a path already allotted
to another fingerprint, the cell gets `cell.path(marked=True)`. Where that is taken too, which
takes a name made to look like one, the whole enrolment is refused with `LedgerError`. A cell
whose results lie somewhere already is enrolled with that path, and gets it or is refused the same
way.

Events. `record` appends a fact and returns its sequence number. Two kinds act on the cell that
they name, in the same transaction; every other kind is only kept:

* ``retry_asked``: a cell in a final state becomes ``pending``, its used-up tries forgotten. Its
  attempts stay in the history.
* ``cancel_asked``: a ``pending`` or ``running`` cell becomes ``cancelled``; its token grows, so
  that whoever runs it loses its claim.

Claims. The runner decides which cells it wants and in which order: it knows their needs, their
models and its policy. It sends the best few dozen as candidates, and the ledger hands out those
that are still free, in that order. Of two runners that send the same candidate one gets it; the
other gets the next.

Atomicity. Each call is one transaction: all of it or nothing, durable when it returns. Calls
may come from several threads and processes at once. One exception: a ledger whose users all run on
its own machine may lose the last `claim` and `renew` calls when that machine loses its power, if
nothing that came after them is kept either. Whoever held such a lease is gone with it, so that its
token can be given again.

Errors. `LedgerUnreachable` where the store cannot be reached, its `LedgerAway` where that may pass
by itself, its `LedgerDamaged` only where what was kept cannot be read any more, `LedgerTooNew` if a
newer benchfleet wrote it, `ClaimLost` as said above.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import State
from benchfleet.errors import ClaimLost

DEFAULT_LEASE = 60.0  # seconds; at least four heartbeats
Clock = Callable[[], float]  # seconds since the epoch


def since_boot() -> float:
    """Seconds on a clock that no one sets and that goes on while the machine sleeps, as leases
    do."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Ledger(ABC):
    """Where every cell's truth is kept; see the module for the whole contract."""

    multi_host: bool = False  # other hosts may use it: runners begin at different cells
    hosted: bool = False  # calls go together every few seconds: a claim may come late
    usual_lease: float = DEFAULT_LEASE  # seconds; longer where a heartbeat is expensive
    carries_results: bool = False  # results may lie in it, see `results_store`

    @abstractmethod
    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        """Record the cells not yet known and return how many were new. Known ones stay as is, but
        while they have not ended, what is no part of their identity and does not name them follows
        the campaign: needs, limits, priority, phase, the model's source and its interpreter, and
        what a benchmark is told outside its identity. `paths` are those where results lie already.
        """

    @abstractmethod
    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        """The first `limit` of the candidates that are free, in their order, now held by `runner`.

        Candidates are fingerprints. A cell is free while it is ``pending`` and its back-off is
        over; all others are passed over, and so are unknown ones. Each claim comes with the outcome
        that asked for this try, where there is one, and so with its advice; whether the slot
        fulfils that is for the runner to see.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The leases still held, with their time begun anew; the others are lost."""

    @abstractmethod
    def finish(self, lease: Lease, outcome: Outcome) -> None:
        """End the attempt. Raises `ClaimLost` where the lease holds no longer."""

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """End several attempts: for each None, or the `ClaimLost` that `finish` would raise.

        A ledger that can does so in one transaction. Where this raises, none or some of them ended;
        whoever asks again with the same outcomes does no harm.
        """
        refused: list[ClaimLost | None] = []
        for lease, outcome in ended:
            try:
                self.finish(lease, outcome)
                refused.append(None)
            except ClaimLost as error:
                refused.append(error)
        return refused

    @abstractmethod
    def release(self, leases: Sequence[Lease], reason: str) -> None:
        """Give the cells back, no try used up. Leases no longer held are passed over."""

    @abstractmethod
    def reap(self) -> Sequence[Fingerprint]:
        """Take back the cells whose lease ran out, no try used up; each is returned once."""

    @abstractmethod
    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        """The cells as they stand, in the order of enrolment; `whole` brings the `Cell` along."""

    @abstractmethod
    def record(self, event: Event) -> int:
        """Append the event and return its sequence number, which grows."""

    @abstractmethod
    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        """The events with a sequence number above `since`, oldest first; those about the cells
        `among`, by fingerprint, and of these `kinds`, where they are given.

        The ledger itself records ``claimed``, ``finished``, ``released`` and ``reaped`` with the
        cell's fingerprint and, as ``data``, attempt, token and runner, for ``finished`` the whole
        outcome too, for ``released`` the reason: this is a cell's history of attempts. One
        ``enrolled`` stands for a whole enrolment that changed something: how many cells were
        ``new``, and of how many known ones the needs and the like ``changed``.
        """

    def listen(self, changed: Callable[[], None]) -> None:  # noqa: B027 - it may do nothing
        """Call `changed` from another thread, until the ledger is closed, when others made cells
        claimable. A ledger that cannot never calls it; runners poll in any case."""

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """In this context the thread's calls raise `LedgerAway` after so many seconds, where the
        store is away; outside of it they wait as long as the ledger usually does."""
        return nullcontext()

    def results_store(self) -> Any:
        """The `benchfleet.results.stores.base.ResultStore` that is part of the ledger, or None."""
        return None

    def compact(self) -> int:
        """Remove what no reader needs any more; how many entries."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; leases are left as they are."""
