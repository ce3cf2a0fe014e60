"""Batched ledgers over one in memory, which counts the pushes that a repository would get."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

from benchfleet.domain.attempt import Outcome
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.git.batched import BatchedLedger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.testing import FakeClock

SUCCESS = Outcome(state="success", digest="abc")
LEASE = 1800.0


class NoOutbox:
    def fingerprints(self) -> set[str]:
        return set()

    def waiting(self) -> list[object]:
        return []

    def hold(self, ended: object) -> AbstractContextManager[None]:
        return nullcontext()


class Shared(MemoryLedger):
    """A ledger in memory that counts what a repository would have been asked."""

    def __init__(self, clock: FakeClock, pushes: dict[int, list[float]], number: int) -> None:
        super().__init__(clock=clock, lease=LEASE)
        self.pushes, self.number, self.now = pushes, number, clock
        self.outbox, self.store = NoOutbox(), SimpleNamespace(closing=threading.Event())
        self.pushed: Callable[[], None] = lambda: None  # called before the answers are there

    def reap_expired(self) -> Sequence[Any]:
        return self.reap()

    def run(self, verbs: Sequence[Callable[[Any], Any]], **how: object) -> list[Any]:
        self.pushes.setdefault(self.number, []).append(self.now())
        answers: list[Any] = []
        for verb in verbs:
            try:
                answers.append(verb(self))
            except BenchfleetError as error:
                answers.append(error)
        self.pushed()
        return answers

    def last_known_event(self) -> int:
        return 0

    def activity(self, seconds: float) -> tuple[int, int]:
        lately = [times for times in self.pushes.values() if self.now() - times[-1] <= seconds]
        return len({*self.pushes, self.number}), len(lately)


def handle(first: Shared, number: int, chance: random.Random) -> BatchedLedger:
    """Another installation on the same ledger."""
    other = Shared(first.now, first.pushes, number)
    vars(other).update({**vars(first), "number": number})
    return BatchedLedger(cast(GitLedger, other), clock=first.now, chance=chance, threads=False)


def alone() -> tuple[FakeClock, Shared, BatchedLedger]:
    clock = FakeClock(0.0)
    first = Shared(clock, {}, 0)
    ledger = BatchedLedger(
        cast(GitLedger, first), clock=clock, chance=random.Random(1), threads=False
    )
    return clock, first, ledger


def push(clock: FakeClock, ledger: BatchedLedger) -> None:
    for _ in range(60):
        clock.advance(1.0)
        if ledger.step():
            return
    raise AssertionError("no push within a minute")
