"""The ledger contract: the state of every cell of a campaign, for all its runners.

To write a new ledger, read this file and derive from `Ledger`. To prove it, derive a test class
from `benchfleet.testing.LedgerContract`.

Time. Each ledger has one clock and compares all times by it. No caller passes a time of day. A
duration in an argument or a result is in seconds from the moment of the call.

States. `enroll` adds a cell as ``pending``. `claim` makes it ``running`` and returns a `Lease`.
`finish` sets the outcome's final state. If `Outcome.retry_in` is not None, the cell becomes
``pending`` instead, and `claim` skips it for so many seconds. `release` makes a cell ``pending`` at
once. `reap` does so for each expired lease. `release` and `reap` do not use up a try. Besides
these, only `record` changes states, with the two kinds of events below.

Fencing. Each cell has a `token` that grows with every claim and every release. A lease carries the
token of its claim. `renew` and `finish` change a cell only while the two are equal:

* `renew` accepts an expired lease until the cell is reaped.
* `finish` accepts a lease once, while no newer token exists, even if it expired or was reaped.
* A repeated `finish` with the same lease, digest and state changes nothing and raises nothing. So a
  caller that does not know whether a commit succeeded can call again.
* Everything else raises `ClaimLost`. The caller then stops and publishes nothing.

So a cell never has two unexpired leases, and never two results. The length of a lease is the
setting of the handle that claimed or renewed it, also for others that reap.

Paths. Enrolment allocates the results path of a cell for good. It is `cell.path(marked=False)`,
unless that equals, contains or lies inside the path of another fingerprint. Then it is
`cell.path(marked=True)`. If that path is in use too, `enroll` adds nothing and raises
`LedgerError`.
A path in the argument `paths` replaces both: the cell gets it, or the enrolment is refused.

Events. `record` appends an event and returns its sequence number. Two kinds also change the cell
that they name, in the same transaction:

* ``retry_asked`` makes a cell in a final state ``pending`` and resets its used tries. The history
  of its attempts stays.
* ``cancel_asked`` makes a ``pending`` or ``running`` cell ``cancelled``. Its token grows, so the
  runner loses its claim.

Subjects. The fingerprint of an event may name a subject that is no cell, such as ``rentals``. All
events of a subject are recorded with `after`: the number of the subject's last event that the
caller has read, or 0. If another event came in between, `record` appends nothing and raises
`Superseded`. So of several callers who decide on the same history, one succeeds. A caller that gets
no answer reads the events again to learn whether its event is there.

Progress. `report_progress` keeps what a runner does now: its slots, samples, speed and memory.
`progress` returns the last report of each runner with its age, for people who watch a fleet. A new
report replaces the old one, a power cut may lose it, and old ones are removed. Reports decide
nothing. A runner reports at each heartbeat, just before it renews, in at most 16 KiB.

Claims. The runner chooses: it knows devices, models and the policy. It sends a few dozen candidates
in its order of preference. The ledger returns those that are still free, in that order. If two
runners send the same candidate, one gets it and the other gets its next one.

Atomicity. Each call is one transaction, durable when it returns. Threads and processes call at the
same time. One exception: a ledger for one machine may lose the last `claim` and `renew` calls in a
power cut, if nothing after them is kept. The holders of these leases died in the same power cut, so
their tokens may be reused.

Errors. `LedgerUnreachable`: the store cannot be used. Its subclasses: `LedgerAway` where a later
call may succeed, `LedgerDamaged` where stored data cannot be read, `LedgerTooNew` where a newer
benchfleet wrote it. `ClaimLost` and `Superseded`: see above.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.state import State
from benchfleet.domain.worker_progress import WorkerProgress
from benchfleet.errors import ClaimLost, Superseded

if TYPE_CHECKING:
    from benchfleet.git.shared_files import SharedFiles

PROGRESS_KEPT_S = 7200.0  # seconds for which a report of progress is kept
DEFAULT_LEASE_S = 60.0  # at least four heartbeats
Clock = Callable[[], float]  # seconds since the epoch


def since_boot() -> float:
    """Seconds since boot, time in suspend included; nobody can set this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Ledger(ABC):
    """The state of every cell; the module's docstring is the contract."""

    multi_host: bool = False  # runners on several hosts share it, and start at different cells
    hosted: bool = False  # calls are batched for seconds: a claim may return late
    default_lease_s: float = DEFAULT_LEASE_S  # longer where a heartbeat is expensive
    stores_results: bool = False  # it has a `results_store`
    keeps_outcomes: bool = False  # on disk, until the store has them

    @abstractmethod
    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        """Add the unknown cells; return how many were added.

        The identity of a known cell stays. Until it has ended, its terms follow the campaign:
        needs, limits, priority, phase, source and interpreter of the model, and the benchmark's
        parameters outside its identity. `paths` has the paths of results that exist already. Only
        the code that enters published results into a ledger passes it.
        """

    @abstractmethod
    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        """Claim the first `limit` free cells of `candidates` (fingerprints) for `runner`.

        A cell is free while it is ``pending`` and its retry delay is over. Others and unknown ones
        are skipped. A claim for a retry carries the outcome that requested it, with its advice; the
        runner checks whether its slot can follow that.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Extend the leases that are still valid and return them; the others are lost."""

    def report_progress(self, progress: WorkerProgress) -> None:  # noqa: B027 - it may do nothing
        """Replace the progress of this runner. Others see it at the latest after its next `renew`;
        a remote ledger may send both together."""

    def progress(self) -> Sequence[WorkerProgress]:
        """The last progress of each runner, with its age; older than `PROGRESS_KEPT_S` for none."""
        return ()

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        """End the attempt. Raises `ClaimLost` if the lease is no longer valid."""
        (refused,) = self.finish_all([(lease, outcome)])
        if refused is not None:
            raise refused

    @abstractmethod
    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """End several attempts; for each None, or the `ClaimLost` that says why it cannot end.

        One transaction, where the ledger can. If it raises, none or some of them ended; a repeated
        call with the same outcomes is safe.
        """

    @abstractmethod
    def release(self, leases: Sequence[Lease], reason: str) -> None:
        """Make the cells ``pending`` again, without using up a try. Invalid leases are skipped."""

    @abstractmethod
    def reap(self) -> Sequence[Fingerprint]:
        """Make cells with expired leases ``pending``, without using up a try; return each once."""

    @abstractmethod
    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        fingerprints: Collection[str] | None = None,
        with_cell: bool = False,
        parts: bool = False,
    ) -> Iterator[CellRecord]:
        """The records of cells in the order of enrolment; `with_cell` includes the `Cell`.

        Parts of cells that were split (`domain/part.py`) are included only by `fingerprints`, or
        with `parts`: for those who look at all attempts, results or leases.
        """

    @abstractmethod
    def record(self, event: Event, *, after: int | None = None) -> int:
        """Append the event and return its sequence number, which grows.

        With `after`, raises `Superseded` unless that is the number of the last event with the same
        fingerprint (0: there is none). Only for a subject; the module's docstring says more.
        """

    @abstractmethod
    def events(
        self,
        since: int = 0,
        fingerprints: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        """The events with a sequence number above `since`, oldest first, filtered by cell and kind.

        The ledger itself records ``claimed``, ``finished``, ``released`` and ``reaped``. Their data
        has attempt, token and runner; ``finished`` also the whole outcome, ``released`` the reason.
        ``claimed`` may have the length of its ``lease`` in seconds, for ledgers of many clocks.
        Each enrolment with an effect records one ``enrolled``: the number of ``new`` cells, and of
        known cells whose terms ``changed``.
        """

    @abstractmethod
    def last_event(self) -> int:
        """The sequence number of the newest event; 0 without one."""

    def read_age(self) -> float:
        """The age of what reads return, in seconds; 0 where each read asks the store itself."""
        return 0.0

    def listen(self, changed: Callable[[], None]) -> None:  # noqa: B027 - it may do nothing
        """Call `changed` from another thread when others made cells claimable, until `close`.

        It is only a hint: runners poll too, so a ledger need not call it. A runner calls `listen`
        once. Each further call adds a listener.
        """

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Limit this thread's calls: in this context they raise `LedgerAway` after so many seconds.
        Otherwise they retry as long as the ledger is configured to."""
        return nullcontext()

    def problem(self) -> str:
        """Why the last try of a call failed that is being repeated; ``""`` if none is."""
        return ""

    def shared_files(self) -> SharedFiles | None:
        """The repository that the ledger lies in, for files beside it; None without one."""
        return None

    def results_store(self) -> Any:
        """The `benchfleet.results.stores.base.ResultStore` that is part of the ledger, or None.

        Asked when the results of a campaign are located, and by ``benchfleet merge``.
        """
        return None

    def keep(self, ended: Sequence[tuple[Lease, Outcome]]) -> None:  # noqa: B027 - may do nothing
        """Keep outcomes on disk that `finish_all` could not send, for `resend`."""

    def resend(self) -> None:  # noqa: B027 - it may do nothing
        """Send the outcomes that were kept, also by an earlier process. Each verb that writes calls
        it when it opens the ledger. What the store does not take stays kept."""

    def interrupt(self) -> None:  # noqa: B027 - it may do nothing
        """Let no call of this process wait for a store that is away any longer."""

    def compact(self) -> int:
        """Remove data that no reader needs; return how many entries. ``benchfleet merge`` calls it
        after it has merged the results in a git ledger."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Close files and connections; leases stay."""


def refuse_superseded(subject: str, last: int, after: int) -> None:
    """Raise `Superseded` unless `after` is the number of the last event of the subject."""
    if last != after:
        raise Superseded(f"{subject}: event {last} came after {after}, so nothing was recorded")
