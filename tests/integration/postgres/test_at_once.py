"""Threads that do all that a fleet does at once, on one real PostgreSQL server."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.testing import sample_cell

from .conftest import ME, SUCCESS, finishes

AGAIN = Outcome(state="failed", retry_in=0.0)
CELLS = [sample_cell(n, model="abc"[n % 3], priority=n % 2) for n in range(300)]
KEYS = [sample_cell(model=model).model.load_key for model in "abc"]
THREADS = 6


class Worker(threading.Thread):
    """Claims and ends through its own handle or that of all, and ends through any."""

    def __init__(self, seed: int, ledger: Any, others: list[Any]) -> None:
        super().__init__()
        self.chance, self.ledger, self.others = random.Random(seed), ledger, others
        self.runner, self.choice = RunnerId(f"runner-{seed}"), Choice(c.fingerprint for c in CELLS)
        self.ended: Counter[str] = Counter()
        self.held: list[Claim] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while sum(self.ended.values()) < len(CELLS) / THREADS or self.held:
                if not self.work():
                    return
        except BaseException as error:  # noqa: BLE001 - raised where the threads are waited for
            self.error = error

    def work(self) -> bool:
        """Whether there was something to claim, or more may come."""
        chance, name = self.chance, self.chance.choice(CELLS).fingerprint
        match chance.randrange(50):
            case 0 if self.held:
                self.ledger.release([self.held.pop().lease], "given back")
            case 1 if self.ended:
                self.ledger.record(Event(kind="retry_asked", fingerprint=min(self.ended)))
            case 2:
                self.choice.put(name, chance.choice([-1.0, 1.0]))
            case 3:
                self.choice.drop(name)
            case 4:
                time.sleep(chance.random() / 20)
            case 5 if self.held:
                lease = self.held.pop().lease
                chance.choice(self.others).finish(lease, SUCCESS)
                self.ended[lease.fingerprint] += 1
        over = [(claim.lease, SUCCESS if chance.random() < 0.97 else AGAIN) for claim in self.held]
        models = {key: chance.choice([0.0, 1.0]) for key in KEYS} if chance.random() < 0.1 else {}
        offer = Offer(models=models, among=self.choice)
        refused, claims = self.ledger.exchange(over, self.runner, offer, chance.choice([1, 1, 3]))
        assert not any(refused)
        self.held = list(claims)
        self.ended.update(lease.fingerprint for lease, _ in over)
        return bool(claims)


@pytest.mark.parametrize("handles", [THREADS, 1])
def test_whatever_threads_do_at_once_each_attempt_ends_once_and_no_cell_is_left(
    opened: Callable[..., Any], handles: int
) -> None:
    ledgers = [opened() for _ in range(handles)]
    ledgers[0].enroll(CELLS)
    workers = [Worker(n, ledgers[n % handles], ledgers) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not any(worker.is_alive() for worker in workers)
    assert [worker.error for worker in workers] == [None] * THREADS
    ended = sum((worker.ended for worker in workers), Counter[str]())
    offer = Offer(among=Choice(cell.fingerprint for cell in CELLS))
    while claims := ledgers[-1].claim(ME, offer, 10):  # of those that were left out, or run again
        assert not any(ledgers[-1].finish_all([(claim.lease, SUCCESS) for claim in claims]))
        ended.update(claim.lease.fingerprint for claim in claims)
    assert finishes(ledgers[0]) == ended
    assert {record.state for record in ledgers[0].cells()} == {"success"}
    claimed = ledgers[0].events(kinds=["claimed"])
    attempts = {(event.fingerprint, event.data["attempt"]) for event in claimed}
    assert len(attempts) == len(claimed)
    assert sum(ended.values()) > len(CELLS)
