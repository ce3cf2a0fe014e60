"""Calls of a git ledger that wait for its next push, at the pace of a hosted repository."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.errors import GitError, LedgerError
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.git.mirror_transaction import Verb, finishing

MAX_PUSHES = 6  # a minute, of all installations together
INTERVAL_S = 60.0 / MAX_PUSHES  # between two pushes of one that is alone
_GATHER = 0.2  # of an interval, in which calls that come together gather
_POLL = 0.05  # of an interval, between two looks at whether a push is due


@dataclass(eq=False)
class PendingCall:
    """A verb that waits for the next push."""

    verb: Verb
    awaited: bool = False  # its caller waits, and calls again if the push fails
    answer: Any = None
    done: threading.Event = field(default_factory=threading.Event)

    def end(self, answer: Any) -> None:
        """Answer, unless that was done before."""
        if not self.done.is_set():
            self.answer = answer
            self.done.set()

    def wait(self) -> Any:
        """The answer, once the push is done. Raises what the verb raises."""
        self.done.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class PushQueue:
    """Pushes the calls that wait, together with outcomes that an earlier process kept.

    One installation lets `interval` seconds pass between two pushes, times the number of active
    installations. `requests` returns verbs for the next push, and what takes their answers. While
    the remote takes no push, `away` is why, and the same push is tried again at the same pace.
    """

    def __init__(
        self,
        inside: GitLedger,
        *,
        clock: Callable[[], float],
        chance: random.Random,
        threads: bool,
        interval: float,
        requests: Callable[[], Sequence[tuple[Verb, Callable[[Any], None]]]],
    ) -> None:
        self._inside, self._interval, self._requests = inside, interval, requests
        self._clock, self._random, self._threads = clock, chance, threads
        self._lock = threading.Lock()
        self._calls: list[PendingCall] = []
        self._oldest: float | None = None  # when the first call that waits came
        self._next = clock() + chance.uniform(0.0, 3 * interval)
        self._active = 1  # installations
        self._closing = threading.Event()
        self._pusher: threading.Thread | None = None
        self.away: LedgerError | None = None

    def add(self, verb: Verb, *, awaited: bool = False) -> PendingCall:
        """Queue a verb for the next push."""
        call = PendingCall(verb, awaited=awaited)
        with self._lock:
            self._calls.append(call)
        self.wake()
        return call

    def wake(self) -> None:
        """Have a push made once it is due."""
        with self._lock:
            if self._oldest is None:
                self._oldest = self._clock()
            if self._pusher is None and self._threads and not self._closing.is_set():
                self._pusher = threading.Thread(target=self._run, name="pusher", daemon=True)
                self._pusher.start()

    def close(self) -> None:
        """Push what waits, at once; a remote that is away is not waited for."""
        if self._calls:
            self._push()

    def stop(self) -> None:
        """End the thread, after the push that it makes."""
        self._closing.set()
        self._inside.store.closing.set()
        if self._pusher is not None:
            self._pusher.join()

    def step(self) -> bool:
        """Push what waits, if it is due; whether something was pushed. Raises nothing: each caller
        hears what came of its call."""
        now = self._clock()
        with self._lock:
            called = self._oldest
        gathered = self._next if called is None else called + _GATHER * self._interval
        if now < max(self._next, gathered):
            return False
        if called is None and not self._inside.outbox.waiting():
            return False
        try:
            self._active, lately = self._inside.activity(MAX_PUSHES * self._interval)
        except Exception:  # noqa: BLE001 - the push tells what is wrong
            lately = 0
        if lately >= MAX_PUSHES:
            self._next = now + self._random.uniform(0.5, 3.0) * self._interval
            return False
        with self._lock:
            self._next = now + self.pace
        self._push()
        return True

    @property
    def pace(self) -> float:
        """Seconds between two pushes of this installation."""
        return self._interval * max(1, self._active)

    def take_turn(self) -> None:
        """Wait until a push is due, and count one that is made beside the queue."""
        while not self._closing.is_set():
            with self._lock:
                wait = self._next - self._clock()
                if wait <= 0.0:
                    self._next = self._clock() + self.pace
                    return
            self._closing.wait(min(wait, _POLL * self._interval))

    def _push(self) -> None:
        with self._lock:
            calls, self._calls, self._oldest = self._calls, [], None
        requests, outbox = self._requests(), self._inside.outbox
        unsent = outbox.waiting()
        verbs = [call.verb for call in calls] + [verb for verb, _ in requests]

        def refused(error: GitError) -> float:
            """Tell those who wait why the push failed, and say when to try again."""
            self.away = away = self._inside.store.ledger_error(error)
            with self._lock:
                waiting = [call for call in (*calls, *self._calls) if call.awaited]
                self._calls = [call for call in self._calls if not call.awaited]
            for call in waiting:
                call.end(away)
            return self.pace

        try:
            with outbox.hold(unsent):
                more = list(map(finishing, unsent))
                answers = self._inside.run([*verbs, *more], retry_pause=refused)[: len(verbs)]
            self.away = None
        except Exception as error:  # noqa: BLE001 - each who waits must hear of it
            answers = [error] * len(verbs)
        for call, answer in zip(calls, answers, strict=False):
            call.end(answer)
        for (_, take), answer in zip(requests, answers[len(calls) :], strict=False):
            take(answer)

    def _run(self) -> None:
        while not self._closing.wait(_POLL * self._interval):
            self.step()
