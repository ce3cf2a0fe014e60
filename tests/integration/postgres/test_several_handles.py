"""Several handles and threads on one ledger of a real PostgreSQL server."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.postgres.queries import STATEMENTS
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any

from .conftest import ME, SUCCESS, finishes

AGAIN = Outcome(state="failed", retry_in=0.0)
CELLS = [sample_cell(n) for n in range(300)]
THREADS = 6


class Worker(threading.Thread):
    """Claims through its own handle, or that of all, and ends through any."""

    def __init__(self, seed: int, ledgers: list[Any]) -> None:
        super().__init__()
        self.chance, self.ledgers = random.Random(seed), ledgers
        self.ledger, self.runner = ledgers[seed % len(ledgers)], RunnerId(f"runner-{seed}")
        self.ended: Counter[str] = Counter()
        self.held: list[Claim] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while sum(self.ended.values()) < len(CELLS) / THREADS or self.held:
                self.work()
        except BaseException as error:  # noqa: BLE001 - raised where the threads are waited for
            self.error = error

    def work(self) -> None:
        chance, leases = self.chance, [claim.lease for claim in self.held]
        match chance.randrange(20):
            case 0:
                self.ledger.release(leases, "given back")
                leases = []
            case 1 if self.ended:
                self.ledger.record(Event(kind="retry_asked", fingerprint=min(self.ended)))
            case 2:
                self.ledger.events(since=chance.randrange(1000))
            case 3:
                assert len(self.ledger.renew(leases)) == len(leases)
        over = [(lease, SUCCESS if chance.random() < 0.97 else AGAIN) for lease in leases]
        assert not any(chance.choice(self.ledgers).finish_all(over))
        self.ended.update(lease.fingerprint for lease in leases)
        candidates = [cell.fingerprint for cell in chance.sample(CELLS, 30)]
        self.held = list(self.ledger.claim(self.runner, candidates, chance.choice([1, 1, 5])))


@pytest.mark.parametrize("handles", [THREADS, 1])
def test_whatever_threads_do_at_once_each_attempt_ends_once_and_no_cell_is_left(
    opened: Callable[..., Any], handles: int
) -> None:
    ledgers = [opened() for _ in range(handles)]
    ledgers[0].enroll(CELLS)
    workers = [Worker(n, ledgers) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not any(worker.is_alive() for worker in workers)
    assert [worker.error for worker in workers] == [None] * THREADS
    ended = sum((worker.ended for worker in workers), Counter[str]())
    while claims := claim_any(ledgers[-1], ME, 10):  # of those that were left, or run again
        assert not any(ledgers[-1].finish_all([(claim.lease, SUCCESS) for claim in claims]))
        ended.update(claim.lease.fingerprint for claim in claims)
    assert finishes(ledgers[0]) == ended
    assert {record.state for record in ledgers[0].cells()} == {"success"}
    assert list(problems(ledgers[0])) == []


def test_handles_that_end_many_cells_in_opposite_order_never_wait_for_each_other(
    opened: Callable[..., Any],
) -> None:
    handles = [opened(), opened()]
    handles[0].enroll(CELLS)
    claims = claim_any(handles[0], ME, len(CELLS))
    over = [(claim.lease, SUCCESS) for claim in claims]
    output: list[Any] = []

    def end(handle: Any, some: list[Any]) -> None:
        output.extend(handle.finish_all(some))

    orders = (over, over[::-1])
    threads = [threading.Thread(target=end, args=one) for one in zip(handles, orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert output == [None] * 2 * len(CELLS)
    assert set(finishes(handles[0]).values()) == {1}


@pytest.mark.parametrize(
    "name", ["", "a,b", 'a"b', "a\\b", "{}", "a\nb", "a\x1eb", "null", "läufer"]
)
def test_a_runner_may_be_called_anything(opened: Callable[..., Any], name: str) -> None:
    ledger, runner = opened(), RunnerId(name)
    ledger.enroll(CELLS[:4])
    leases = [claim.lease for claim in claim_any(ledger, runner, 4)]
    assert ledger.renew(leases) == leases
    ledger.release(leases[:1], f"given back by {name}")
    assert not any(ledger.finish_all([(lease, SUCCESS) for lease in leases[1:]]))
    output = [event.data["runner"] for event in ledger.events() if "runner" in event.data]
    assert output == [name] * 8


def test_a_handle_ends_what_another_claimed_after_it_lost_the_cell_itself(
    opened: Callable[..., Any],
) -> None:
    mine, other = opened(), opened()
    mine.enroll(CELLS[:2])
    mine.release([claim.lease for claim in claim_any(mine, ME, 2)], "it leaves")
    leases = [claim.lease for claim in claim_any(other, RunnerId("you"), 2)]
    assert len(mine.renew(leases)) == 2
    assert not any(mine.finish_all([(lease, SUCCESS) for lease in leases]))


def test_handles_that_enroll_at_once_enroll_each_cell_once(opened: Callable[..., Any]) -> None:
    handles = [opened() for _ in range(4)]
    new: list[int] = []
    threads = [
        threading.Thread(target=lambda handle=handle: new.append(handle.enroll(CELLS)))
        for handle in handles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new) == [0, 0, 0, 300]
    assert len(handles[0].events(kinds=["enrolled"])) == 1


def test_a_claim_holds_up_no_other_and_waits_for_none(
    opened: Callable[..., Any], postgres: Any
) -> None:
    """A row that another transaction has is passed over."""
    import psycopg

    ledger = opened()
    ledger.enroll(CELLS[:3])
    with psycopg.connect(postgres.url()) as slow:
        slow.execute(f"select from {ledger.schema}.cell where ordinal = 1 for update".encode())
        names = [claim.cell.fingerprint for claim in claim_any(ledger, ME, 3)]
    assert names == [cell.fingerprint for cell in CELLS[1:3]]


@pytest.mark.parametrize("name", ["claim", "renew", "finish", "release", "reap", "cells_of"])
def test_cells_are_looked_up_by_key_also_by_plans_that_were_made_while_they_were_few(
    opened: Callable[..., Any], name: str
) -> None:
    ledger = opened()
    ledger.enroll(CELLS[:3])
    values: dict[str, object] = {"now": None, "runner": "me", "candidates": "[]"}
    values |= {"limit": 1, "lease": 60.0, "leases": "[]", "ended": "[]", "reason": '""'}
    values |= {"with_cell": False, "after": 0, "states": ["pending"], "fingerprints": ["a"]}
    with ledger._connections.one() as connection:
        explained = connection.execute(f"explain {STATEMENTS[name]}".encode(), values)
        plan = "\n".join(row[0] for row in explained)
    assert "Seq Scan" not in plan
    assert "Hash" not in plan
