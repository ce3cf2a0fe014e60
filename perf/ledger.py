"""A claim and a finish through the ledger's own verbs, with fencing and the whole history kept.

Beside it: a raw loop of two statements on a table of as many rows, on PostgreSQL and on SQLite;
and, with `--peers PYTHON` (one that has pgqueuer and procrastinate), jobs of those that do nothing.
`a choice` claims among 10,000 named cells, as a run does, and `exchanged` ends cells and claims the
next ones at once, as a run of short cells does. Each worker is a process with a connection, but
for the last table: 64 threads of one process, which share the connections of one ledger, beside 64
threads with one each. `--quick 1` tries few shapes; `--aged CELLS` only compares a small campaign,
a new one of so many cells, and one of as many after five attempts for each. The server is the
script's own, and syncs what it commits; `--work` on a tmpfs shows what is computed.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import measure
import psycopg

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.copying import Tables
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.ledger.rows import CellTexts
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from postgres import Postgres

SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB")
SMALL, LARGE = 10_000, 1_000_000  # rows
MODELS, PRIORITIES = 10, 5
SLOTS = 64
PEERS = Path(__file__).with_name("ledger_peers.py")
ENDED = Outcome(
    state="success",
    digest=hashlib.sha256(b"").hexdigest(),
    metrics={"accuracy": 0.5},
    seconds={"load": 1.0, "benchmark": 2.0},
    host="lab",
    device="gpu:0",
)
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


# What is measured: each opens its own connection and returns its loop


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


# The rows


def names(numbers: Iterable[int]) -> Iterator[str]:
    return (hashlib.sha256(str(number).encode()).hexdigest() for number in numbers)


def filled(rows: int) -> Tables:
    """A ledger of so many cells; of a large one every other has ended."""
    texts, samples = CellTexts(), [sample_cell(model=f"model-{n}") for n in range(MODELS)]
    specs = [(texts.spec(cell), texts.terms(cell)) for cell in samples]

    def cells() -> Iterator[Sequence[Any]]:
        for ordinal, name in enumerate(names(range(1, rows + 1)), start=1):
            state = "success" if rows > SMALL and ordinal % 2 else "pending"
            lane, priority = ordinal % MODELS + 1, ordinal * 7919 % PRIORITIES
            path = f"model-{lane}/dense/benchmark/r{ordinal}"
            yield (
                *(ordinal, name, path, path, lane, priority, state),
                *(None, 0, 0, 0, 0, "", None, None),
            )

    yield "lane", ((n + 1, cell.model.load_key, 0, 0) for n, cell in enumerate(samples))
    yield "cell", cells()
    yield "spec", ((ordinal, *specs[ordinal % MODELS]) for ordinal in range(1, rows + 1))


def raw_rows(rows: int) -> Iterator[tuple[int, int, int, str]]:
    for n in range(rows):
        yield n, n * 7919 % PRIORITIES, 2 if rows > SMALL and n % 2 else 0, f"m{n % 50}/b{n % 11}"


def fill_raw_postgres(server: Postgres, table: str, rows: int) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"drop table if exists {table}")  # type: ignore[arg-type]
        connection.execute(
            f"create table {table} (id bigint primary key, prio int not null,"  # type: ignore[arg-type]
            " state smallint not null, spec text not null, token bigint, lease timestamptz)"
            " with (fillfactor = 80)"
        )
        into = f"copy {table} (id, prio, state, spec) from stdin"
        with connection.cursor() as cursor, cursor.copy(into) as copy:  # type: ignore[arg-type]
            for row in raw_rows(rows):
                copy.write_row(row)
        connection.execute(f"create index on {table} (prio, id) where state = 0")  # type: ignore[arg-type]
        connection.execute(f"vacuum analyze {table}")  # type: ignore[arg-type]


def fill_raw_sqlite(file: Path, rows: int) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(
            "create table cell (id integer primary key, prio int not null, state int not null,"
            " spec text not null, token int, lease real)"
        )
        database.execute("begin")
        database.executemany(
            "insert into cell (id, prio, state, spec) values (?, ?, ?, ?)", raw_rows(rows)
        )
        database.execute("commit")
        database.execute("create index pending on cell (prio, id) where state = 0")
        database.execute("pragma wal_checkpoint(truncate)")


def fill_postgres(server: Postgres, campaign: str, rows: int) -> None:
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        server.sql(f"drop schema {ledger.schema} cascade")
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        ledger.fill(filled(rows))
        server.sql("vacuum analyze")


def fill_by_sql(server: Postgres, campaign: str, rows: int) -> str:
    """A ledger of so many cells, every other of which has ended, made by the server; its schema."""
    with closing(PostgresLedger(server.url(), campaign=campaign)) as ledger:
        schema = ledger.schema
    texts, values = CellTexts(), list[str]()
    for number in range(MODELS):
        cell = sample_cell(model=f"model-{number}")
        row = (cell.model.load_key, texts.spec(cell), texts.terms(cell))
        values.append(f"({number}, {', '.join(map(_quoted, row))})")
    server.sql(
        f"set search_path to {schema};"  # noqa: S608
        " create temporary table model (number bigint, load_key text, spec text, terms text);"
        f" insert into model values {', '.join(values)};"
        " insert into lane select number + 1, load_key, 0, 0 from model;"
        " insert into cell (ordinal, lane, priority, state)"
        f" select n, n % {MODELS} + 1, n * 7919 % {PRIORITIES},"
        "  case n % 2 when 1 then 'success' else 'pending' end"
        f" from generate_series(1::bigint, {rows}) as n;"
        " insert into identity select n, encode(sha256(n::text::bytea), 'hex'),"
        f" 'model/dense/benchmark/r' || n, 'model/dense/benchmark/r' || n"
        f" from generate_series(1, {rows}) as n;"
        " insert into spec select n, model.spec, model.terms"
        f" from generate_series(1, {rows}) as n join model on number = n % {MODELS};"
    )
    return schema


def age(server: Postgres, schema: str, cells: int, attempts: int) -> None:
    """So many attempts of the cells that ended, the last of which ended well."""
    outcome = _quoted(json.dumps(ENDED.to_dict()))
    last = f"2 * ({attempts - 1} * {cells} + ordinal)"
    server.sql(
        f"set search_path to {schema};"  # noqa: S608
        f" update cell set attempt = {attempts}, token = {attempts}, ended_token = {attempts},"
        f" tries = {attempts - 1}, last = {last}, before = {last} - 2 * {cells}"
        " where ordinal % 2 = 1;"
        " insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq,"
        "  claimed_at, before, outcome)"
        f" select 2 * ((nth - 1) * {cells} + ordinal), 2 * ((nth - 1) * {cells} + ordinal),"
        "  nth, ordinal, nth, nth, 'perf',"
        f"  2 * ((nth - 1) * {cells} + ordinal) - 1, nth,"
        f"  case when nth > 1 then 2 * ((nth - 2) * {cells} + ordinal) end, {outcome}"
        f" from generate_series(1, {attempts}) as nth"
        f" cross join generate_series(1, {cells}, 2) as ordinal;"
        f" select setval('event_seq_seq', 2 * {attempts} * {cells}),"
        f" setval('ended_number_seq', 2 * {attempts} * {cells});"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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


# The runs


class Bench:
    """The systems beside each other, each on rows of its own."""

    def __init__(self, server: Postgres, folder: Path, peers: str) -> None:
        self._server, self._folder, self._python = server, folder, peers
        self._block = 0  # of a large table, whose cells were chosen last
        server.sql("create database peers")
        self.peers: list[str] = []
        if peers:
            done = subprocess.run([peers, PEERS], check=True, capture_output=True, text=True)
            self.peers = done.stdout.split()
        for name in ("pgqueuer", "procrastinate"):
            if name not in self.peers:
                print(f"left out: {name} (name a Python that has it with --peers)")

    def fill(self, rows: int) -> None:
        fill_raw_postgres(self._server, f"raw{rows}", rows)
        fill_postgres(self._server, f"perf{rows}", rows)
        for name in ("raw", "ledger"):
            for file in self._folder.glob(f"{name}{rows}.db*"):
                file.unlink()
        fill_raw_sqlite(self._folder / f"raw{rows}.db", rows)
        with closing(SqliteLedger(self._folder / f"ledger{rows}.db", campaign="perf")) as ledger:
            ledger.fill(filled(rows))

    def systems(self, rows: int, workers: int, batch: int, cells: int) -> dict[str, Any]:
        """What runs once, by name, and says how many cells a second it did."""
        url, campaign = self._server.url(), f"perf{rows}"
        opens: dict[str, Opens] = {
            "psycopg loop": partial(raw_postgres, url, f"raw{rows}", batch),
            "benchfleet, PostgreSQL": partial(through_postgres, url, campaign, batch, None),
            "benchfleet, PostgreSQL, a choice": partial(
                through_postgres, url, campaign, batch, self._some(rows)
            ),
            "benchfleet, PostgreSQL, a choice, exchanged": partial(
                through_postgres, url, campaign, batch, self._some(rows), exchanges=True
            ),
        }
        opens["sqlite3 loop"] = partial(raw_sqlite, self._folder / f"raw{rows}.db", batch)
        file = self._folder / f"ledger{rows}.db"
        opens["benchfleet, SQLite"] = partial(through_sqlite, file, batch)
        opens["benchfleet, SQLite, exchanged"] = partial(
            through_sqlite, file, batch, exchanges=True
        )
        found: dict[str, Any] = {
            name: partial(in_processes, one, workers, cells) for name, one in opens.items()
        }
        if rows == SMALL and workers <= 16:  # their own rows; 64 of them take minutes
            for peer in self.peers:
                found[peer] = partial(self._peer, peer, workers, batch, max(500, cells // 2))
        return found

    def _some(self, rows: int) -> range:
        """The numbers of SMALL cells that wait, others than before; all of a small table."""
        if rows == SMALL:
            return range(1, SMALL + 1)
        self._block = (self._block + 1) % (rows // (2 * SMALL))
        return range(self._block * 2 * SMALL + 1, (self._block + 1) * 2 * SMALL + 1)

    def _peer(self, peer: str, workers: int, batch: int, jobs: int) -> float:
        url = self._server.url(database="peers")
        command = [self._python, str(PEERS), url, peer, str(workers), str(batch), str(jobs)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    def slots(self) -> dict[str, Any]:
        """64 slots of one process, over the connections of one ledger and over 64."""

        def over(ledgers: int, among: Choice | None = None) -> float:
            with ExitStack() as stack:
                opened = [
                    stack.enter_context(
                        closing(PostgresLedger(self._server.url(), campaign=f"perf{SMALL}"))
                    )
                    for _ in range(ledgers)
                ]
                loops = [
                    loop(opened[n % ledgers], 1, among, exchanges=among is not None)
                    for n in range(SLOTS)
                ]
                return in_threads(loops, 2560)

        def raw() -> float:
            with ExitStack() as stack:
                loops = [
                    raw_postgres(self._server.url(), f"raw{SMALL}", 1, stack) for _ in range(SLOTS)
                ]
                return in_threads(loops, 2560)

        return {
            "psycopg loops, 64 connections": raw,
            "benchfleet, 64 ledgers": partial(over, SLOTS),
            "benchfleet, one ledger": partial(over, 1),
            "benchfleet, one ledger, a choice, exchanged": lambda: over(
                1, Choice(names(range(1, SMALL + 1)))
            ),
        }


def compare_aged(server: Postgres, cells: int, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Claims and finishes in a small campaign, in one of so many cells, and in one that has seen
    five attempts for each of its cells, ten of each that ended."""
    fill_by_sql(server, "small", min(2 * SMALL, cells))  # of which one SMALL waits
    fill_by_sql(server, "new", cells)
    age(server, fill_by_sql(server, "aged", cells), cells, 10)
    server.sql("vacuum analyze")
    rates: dict[str, dict[str, list[float]]] = {}
    for _ in range(repeats):
        for batch, chosen in ((1, False), (1, True), (10, False), (10, True)):
            how = ", a choice, exchanged" if chosen else ""
            for name in ("small", "new", "aged"):
                among = range(1, SMALL + 1) if chosen else None
                opens = partial(
                    through_postgres, server.url(), name, batch, among, exchanges=chosen
                )
                heading = f"{cells:,} cells, batch {batch}{how}"
                row = rates.setdefault(heading, {}).setdefault(name, [])
                row.append(in_processes(opens, 1, 90 * batch))
    return rates


def main() -> None:
    arguments = measure.arguments(
        __doc__ or "", repeats=3, numbers={"quick": 0, "aged": 0}, words={"peers": ""}
    )
    with measure.folder(arguments) as folder, ExitStack() as stack:
        server = Postgres(synced=True, below=arguments.work, settings=SETTINGS)
        stack.callback(server.remove)
        server.start()
        if arguments.aged:
            show(compare_aged(server, arguments.aged, arguments.repeats), arguments)
            return
        bench = Bench(server, folder, arguments.peers)
        shapes = [
            (rows, workers, batch)
            for rows in (SMALL, LARGE)
            for workers in (1, 4, 16, 64)
            for batch in (1, 10)
        ]
        if arguments.quick:
            shapes = [(SMALL, 1, 1), (SMALL, 1, 10), (SMALL, 4, 1)]
        if any(rows == LARGE for rows, _, _ in shapes):
            bench.fill(LARGE)
        rates: dict[str, dict[str, list[float]]] = {}
        for _ in range(arguments.repeats):
            for rows, workers, batch in shapes:
                if rows == SMALL:
                    bench.fill(SMALL)
                heading = f"{rows:,} rows, {workers} workers, batch {batch}"
                cells = 1920 if batch == 1 else 3200
                for name, run in bench.systems(rows, workers, batch, cells).items():
                    rates.setdefault(heading, {}).setdefault(name, []).append(run())
            for name, run in bench.slots().items():
                bench.fill(SMALL)
                rates.setdefault("64 slots in one process", {}).setdefault(name, []).append(run())
    show(rates, arguments)


def show(rates: dict[str, dict[str, list[float]]], arguments: Any) -> None:
    figures = {
        heading: {name: statistics.median(found) for name, found in systems.items()}
        for heading, systems in rates.items()
    }
    for heading, systems in figures.items():
        print(f"\n{heading}\n\n| | cells/s | ratio to its loop |\n|---|---|---|")
        first = next(iter(systems.values()))
        for name, rate in systems.items():
            print(f"| {name} | {rate:.0f} | {rate / systems.get(_beside(name), first):.2f} |")
    for heading, small in figures.items():
        if large := figures.get(heading.replace(f"{SMALL:,}", f"{LARGE:,}", 1)):
            if small is large:
                continue
            print(f"\n{heading}: how much slower {LARGE:,} rows are, beside the loop\n")
            for name in large:
                growth = small[name] / large[name] * large[_beside(name)] / small[_beside(name)]
                print(f"- {name}: {growth:.2f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


def _beside(name: str) -> str:
    return "sqlite3 loop" if "SQLite" in name else "psycopg loop"


if __name__ == "__main__":
    main()
