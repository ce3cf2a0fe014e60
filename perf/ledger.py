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

import json
import statistics
import subprocess
import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import measure
from ledger_rows import (
    LARGE,
    SMALL,
    age,
    fill_by_sql,
    fill_postgres,
    fill_raw_postgres,
    fill_raw_sqlite,
    filled,
    names,
)
from ledger_workers import (
    Opens,
    in_processes,
    in_threads,
    loop,
    raw_postgres,
    raw_sqlite,
    through_postgres,
    through_sqlite,
)

from benchfleet.domain.resource import Choice
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.ledger.sqlite.ledger import SqliteLedger

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from postgres import Postgres

SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB")
SLOTS = 64
PEERS = Path(__file__).with_name("ledger_peers.py")


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
