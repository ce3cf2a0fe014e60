"""What claims and finishes: loops over a ledger and over plain tables, in processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
from ledger_rows import ENDED, names

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger

CLAIM = """\
with found as (select id from {table} where state = 0 order by prio, id limit {batch}
               for update skip locked)
update {table} as cell set state = 1, token = %s, lease = now() from found
where cell.id = found.id returning cell.id"""
CLAIM_ONE = """\
update {table} set state = 1, token = %s, lease = now()
where id = (select id from {table} where state = 0 order by prio, id limit 1
            for update skip locked) returning id"""
FINISH = """\
update {table} set state = 2, lease = null
where id = any (%s::bigint[]) and state = 1 and token = %s"""
FINISH_ONE = "update {table} set state = 2, lease = null where id = %s and state = 1 and token = %s"
Pairs = Callable[[int], object]  # claims and finishes so many cells
Opens = Callable[[ExitStack], Pairs]


# Each opens its own connection and returns its loop


def raw_postgres(url: str, table: str, batch: int, stack: ExitStack) -> Pairs:
    connection = stack.enter_context(psycopg.connect(url, autocommit=True))
    claim = (CLAIM if batch > 1 else CLAIM_ONE).format(table=table, batch=batch)
    finish = (FINISH if batch > 1 else FINISH_ONE).format(table=table)

    def pairs(cells: int) -> None:
        done = 0
        while done < cells:
            token = random.getrandbits(31)
            found = [row[0] for row in connection.execute(claim, (token,), prepare=True).fetchall()]
            ids = found if batch > 1 else found[0]
            assert connection.execute(finish, (ids, token), prepare=True).rowcount == len(found)
            done += len(found)

    return pairs


def raw_sqlite(file: Path, batch: int, stack: ExitStack) -> Pairs:
    database = stack.enter_context(closing(sqlite3.connect(file, isolation_level=None, timeout=60)))
    database.execute("pragma synchronous = full")
    some = f"select id from cell where state = 0 order by prio, id limit {batch}"  # noqa: S608

    def pairs(cells: int) -> None:
        done = 0
        while done < cells:
            token = random.getrandbits(31)
            database.execute("begin immediate")
            claim = f"update cell set state = 1, token = ?, lease = 1 where id in ({some})"  # noqa: S608
            found = database.execute(f"{claim} returning id", (token,)).fetchall()
            database.execute("commit")
            database.execute("begin immediate")
            database.executemany(
                "update cell set state = 2, lease = null where id = ? and state = 1 and token = ?",
                [(row[0], token) for row in found],
            )
            database.execute("commit")
            done += len(found)

    return pairs


def loop(ledger: Any, batch: int, among: Choice | None, *, exchanges: bool = False) -> Pairs:
    me = RunnerId(f"perf-{os.getpid()}-{threading.get_ident()}")

    def pairs(cells: int) -> None:
        done, claims = 0, ledger.claim(me, Offer(among=among), min(batch, cells))
        while done < cells:
            if not claims:
                raise SystemExit("nothing is left to claim")
            ended = [(claim.lease, ENDED) for claim in claims]
            done += len(claims)
            if exchanges and done < cells:
                more = min(batch, cells - done)
                refused, claims = ledger.exchange(ended, me, Offer(among=among), more)
                assert not any(refused)
                continue
            if len(ended) > 1:
                assert not any(ledger.finish_all(ended))
            else:
                ledger.finish(*ended[0])
            if done < cells:
                claims = ledger.claim(me, Offer(among=among), min(batch, cells - done))

    return pairs


def through_postgres(
    url: str,
    campaign: str,
    batch: int,
    chosen: Iterable[int] | None,
    stack: ExitStack,
    *,
    exchanges: bool = False,
) -> Pairs:
    ledger = stack.enter_context(closing(PostgresLedger(url, campaign=campaign)))
    among = None if chosen is None else Choice(names(chosen))
    return loop(ledger, batch, among, exchanges=exchanges)


def through_sqlite(file: Path, batch: int, stack: ExitStack, *, exchanges: bool = False) -> Pairs:
    ledger = stack.enter_context(closing(SqliteLedger(file, campaign="perf")))
    return loop(ledger, batch, None, exchanges=exchanges)


# Workers


def in_processes(opens: Opens, workers: int, cells: int) -> float:
    """Cells a second, of so many processes with their own connections."""
    fork = multiprocessing.get_context("fork")
    meeting, told = fork.Barrier(workers), fork.SimpleQueue()

    def work() -> None:
        with ExitStack() as stack:
            pairs = opens(stack)
            pairs(1)  # a ledger reads its choice at its first claim
            meeting.wait(120)
            begun = time.perf_counter()
            pairs(cells // workers)
            told.put((begun, time.perf_counter()))

    return _rate([fork.Process(target=work) for _ in range(workers)], told.get, cells // workers)


def in_threads(loops: Sequence[Pairs], cells: int) -> float:
    """Cells a second, of so many threads of this process."""
    meeting = threading.Barrier(len(loops))
    told: list[tuple[float, float]] = []

    def work(pairs: Pairs) -> None:
        meeting.wait(120)
        begun = time.perf_counter()
        pairs(cells // len(loops))
        told.append((begun, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(pairs,)) for pairs in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _per_second(told, cells // len(loops))


def _rate(processes: Sequence[Any], get: Callable[[], tuple[float, float]], each: int) -> float:
    for process in processes:
        process.start()
    told: list[tuple[float, float]] = []
    reader = threading.Thread(target=lambda: told.extend(get() for _ in processes), daemon=True)
    reader.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit("a worker failed")
    reader.join(10)
    return _per_second(told, each)


def _per_second(told: Sequence[tuple[float, float]], each: int) -> float:
    took = max(end for _, end in told) - min(begun for begun, _ in told)
    return each * len(told) / took
