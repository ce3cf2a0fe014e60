"""What ended on its way to its folder, the ledger and its public path, aside from the loop."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Offer
from benchfleet.engines.base import Done
from benchfleet.errors import ClaimLost, LedgerAway, LedgerFull
from benchfleet.runner.course import Course
from benchfleet.runner.disk import Disk
from benchfleet.runner.ending.attempts import Attempts, Written, leases
from benchfleet.runner.inbox import Concluded
from benchfleet.runner.means import Means
from benchfleet.runner.slots.slots import Slots
from benchfleet.runner.trying.attempt import Attempt, Ended


class Writing:
    """Has attempts sealed, finished and published, in this order; together where that is cheaper.

    Where the ledger can `exchange`, short cells are finished by the loop's next claim. One that
    ended well a moment after the loop last ended or claimed something is sealed and then waits for
    that claim: for the disk's `moment`, without the time in which the loop waits for the ledger. It
    does not wait where no slot is busy, or the run is over. What no claim took along is finished
    in another thread, like all others.
    """

    def __init__(
        self, means: Means, *, course: Course, slots: Slots, attempts: Attempts, disk: Disk
    ) -> None:
        self._ledger, self._inbox, self._course = means.ledger, means.inbox, course
        self._slots, self._attempts, self._background = slots, attempts, disk.background
        self._exchange: Any = getattr(means.ledger, "exchange", None)
        self._moment = disk.moment if self._exchange else 0.0
        self._ended: deque[Ended] = deque()  # to be sealed
        self._lock = threading.Lock()
        self._sealed: list[Written] = []  # waiting for a claim
        self._expected = False  # whether what is sealed now is to wait for a claim
        self._until = inf  # when it does no longer
        self._last = -inf  # when the loop ended or claimed something
        self.under_way = 0  # attempts that are being written

    # In the loop's thread

    def end(self, attempt: Attempt, how: Done | Failure, seconds: Mapping[str, float]) -> None:
        """Have the attempt written and finished while its slot computes on."""
        now = self._inbox.now()
        brisk = now - self._last < self._moment and not self._course.over
        ended = Ended(attempt=attempt, how=how, seconds=seconds, brisk=brisk)
        self._last = now
        if ended.may_wait and self._until == inf:
            self._until = now + self._moment
            with self._lock:
                self._expected = True
        self.under_way += 1
        self._ended.append(ended)
        self._background(self._write)

    def claim(self, runner: RunnerId, offer: Offer, limit: int) -> Sequence[Claim]:
        """Claim, and finish what waits for that."""
        with self._lock:
            some, self._sealed = self._sealed, []
        try:
            if not some:
                return self._ledger.claim(runner, offer, limit)
            return self._exchanged(some, runner, offer, limit)
        finally:
            self._last = self._inbox.now()
            if self._until < inf:
                self._until = self._last + self._moment

    def _exchanged(
        self, some: Sequence[Written], runner: RunnerId, offer: Offer, limit: int
    ) -> Sequence[Claim]:
        claims: Sequence[Claim]
        try:
            refused, claims = self._exchange(leases(some), runner, offer, limit)
        except Exception as error:
            self._background(partial(self._finish, some))
            if isinstance(error, LedgerFull | LedgerAway):  # they are waited for there
                return []
            raise
        self._attempts.drop(some)
        self._background(partial(self._publish, some, refused))
        return claims

    def keep(self) -> float:
        """Have finished what waited its time for a claim, or would in vain; seconds until the next
        is due."""
        if self._until == inf:
            return inf
        left = self._until - self._inbox.now()
        if left > 0 and self._slots.any_busy and not self._course.over:
            return left
        self.let_go()
        return inf

    def let_go(self) -> None:
        """Have nothing wait for a claim any more."""
        self._until = inf
        with self._lock:
            some, self._sealed = self._sealed, []
            self._expected = False
        if some:
            self._background(partial(self._finish, some))

    # In another thread

    def _write(self) -> None:
        """Seal what has ended, and finish what does not wait: what ended while the last ones were
        written goes together."""
        some: list[Ended] = []
        with contextlib.suppress(IndexError):  # all of it was taken
            while len(some) < self._attempts.together and not (some and some[-1].is_large):
                some.append(self._ended.popleft())
        if not some:
            return  # who wrote others took it along
        try:
            outcomes = self._attempts.seal(some)
        except Exception as error:  # noqa: BLE001 - the loop judges it, in its own thread
            self._conclude(some, [error] * len(some))
            return
        now: list[Written] = []
        with self._lock:
            for one in zip(some, outcomes, strict=True):
                waits = self._expected and one[0].may_wait and one[1].failure is None
                (self._sealed if waits else now).append(one)
        if now:
            self._finish(now)

    def _finish(self, some: Sequence[Written]) -> None:
        try:
            refused = self._attempts.finish(some)
        except Exception as error:  # noqa: BLE001 - as above
            self._conclude([ended for ended, _ in some], [error] * len(some))
        else:
            self._publish(some, refused)

    def _publish(self, some: Sequence[Written], refused: Sequence[ClaimLost | None]) -> None:
        try:
            found = self._attempts.publish(some, refused)
        except Exception as error:  # noqa: BLE001 - as above
            found = [error] * len(some)
        self._conclude([ended for ended, _ in some], found)

    def _conclude(self, some: Sequence[Ended], found: Sequence[Outcome | Exception]) -> None:
        for one, outcome in zip(some, found, strict=True):
            self._inbox.post(Concluded(attempt=one.attempt, outcome=outcome))
