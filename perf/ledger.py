"""Claims and finishes through a ledger's own verbs, one cell at a time, by idle processes.

PostgreSQL stands beside pgqueuer, whose jobs do nothing either; the server is this script's own and
syncs what it commits (`--work` names the disk). A worker sends the next few dozen cells from its
own random place in the list, as a runner sends those that it wants.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any

import measure

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.ledger.serialization import CellSerializer
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.ledger.table_copy import CopyableLedger, Tables
from benchfleet.testing import sample_cell

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from postgres import Postgres

SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB")
SMALL, LARGE = 10_000, 1_000_000  # cells; every other one has ended
CELLS = {1: 1000, 16: 3200}  # that are claimed and finished, by the number of workers
CANDIDATES = 32
ENDED = Outcome(state="success", digest="0" * 64, metrics={"accuracy": 0.5}, host="lab")
PEER = Path(__file__).with_name("ledger_peers.py")
Opens = Callable[[], CopyableLedger]


def name(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def filled(cells: int) -> Tables:
    texts, samples = CellSerializer(), [sample_cell(model=f"model-{n}") for n in range(10)]
    specs = [(texts.spec(cell), texts.terms(cell)) for cell in samples]

    def rows() -> Iterator[Sequence[Any]]:
        for number in range(1, cells + 1):
            state, path = "success" if number % 2 else "pending", f"model/dense/benchmark/r{number}"
            yield number, name(number), path, path, state, None, 0, 0, 0, 0, "", None, None

    yield "cell", rows()
    yield "spec", ((number, *specs[number % 10]) for number in range(1, cells + 1))


def work(ledger: CopyableLedger, cells: int, number: int) -> None:
    """Claim and finish so many of the ledger's cells."""
    me, half = RunnerId(f"perf-{os.getpid()}"), cells // 2
    position = random.randrange(half)
    waiting = (name(2 * ((position + n) % half + 1)) for n in count())
    candidates: list[str] = []
    done = 0
    while done < number:
        candidates += islice(waiting, CANDIDATES - len(candidates))
        claims = ledger.claim(me, candidates)
        for claim in claims:
            ledger.finish(claim.lease, ENDED)
            candidates.remove(claim.lease.fingerprint)
        candidates = candidates if claims else []  # others have all of them
        done += len(claims)


def rate(opens: Opens, cells: int, workers: int) -> float:
    """Cells that these processes claim and finish in a second."""
    fork = multiprocessing.get_context("fork")
    meeting = fork.Barrier(workers + 1)

    def process() -> None:
        with closing(opens()) as ledger:
            work(ledger, cells, 5)  # statements are prepared once per connection
            meeting.wait(120)
            work(ledger, cells, CELLS[workers] // workers)

    processes = [fork.Process(target=process) for _ in range(workers)]
    for one in processes:
        one.start()
    meeting.wait(120)
    begun = time.perf_counter()
    for one in processes:
        one.join()
    if any(one.exitcode for one in processes):
        raise SystemExit("a worker failed")
    return CELLS[workers] / (time.perf_counter() - begun)


def peer(url: str, workers: int) -> float:
    command = [sys.executable, str(PEER), url, str(workers), str(CELLS[workers])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def fill(server: Postgres, folder: Path, cells: int) -> tuple[Opens, Opens]:
    """A ledger of so many cells on the server, and one in a file."""
    postgres = partial(PostgresLedger, server.url(), campaign=f"perf{cells}")
    sqlite = partial(SqliteLedger, folder / f"ledger{cells}.db", campaign="perf")
    server.sql(f"drop schema if exists benchfleet_perf{cells} cascade")
    for file in folder.glob(f"ledger{cells}.db*"):
        file.unlink()
    for opens in (postgres, sqlite):
        with closing(opens()) as ledger:
            ledger.fill(filled(cells))
    server.sql("vacuum analyze")
    return postgres, sqlite


def measured(server: Postgres, folder: Path, large: int, repeats: int) -> dict[str, float]:
    """The median of each rate; the repetitions take turns."""
    measured: dict[str, list[float]] = {}
    opened = {large: fill(server, folder, large)}
    for _ in range(repeats):
        opened[SMALL] = fill(server, folder, SMALL)
        for cells, (_, sqlite) in opened.items():
            measured.setdefault(f"SQLite, {cells:,} cells", []).append(rate(sqlite, cells, 1))
        for workers in CELLS:
            for cells, (postgres, _) in opened.items():
                heading = f"PostgreSQL, {cells:,} cells, by {workers}"
                measured.setdefault(heading, []).append(rate(postgres, cells, workers))
            if find_spec("pgqueuer"):
                jobs = peer(server.url(database="peers"), workers)
                measured.setdefault(f"pgqueuer, by {workers}", []).append(jobs)
    return {heading: statistics.median(rates) for heading, rates in measured.items()}


def show(rates: dict[str, float], large: int) -> None:
    print("| | cells a second |\n|---|---|")
    for heading, cells in rates.items():
        print(f"| {heading} | {cells:.0f} |")
    print()
    for workers in CELLS:
        small = rates[f"PostgreSQL, {SMALL:,} cells, by {workers}"]
        growth = small / rates[f"PostgreSQL, {large:,} cells, by {workers}"]
        measure.aim(
            f"PostgreSQL by {workers}: {large:,} cells, x the time of {SMALL:,}", growth, 1.5
        )
        if jobs := rates.get(f"pgqueuer, by {workers}"):
            what = f"PostgreSQL: claim and finish by {workers}: x pgqueuer"
            measure.aim(what, small / jobs, 2, least=True)
    for cells in (SMALL, large):
        rate_ = rates[f"SQLite, {cells:,} cells"]
        measure.aim(f"SQLite, {cells:,} cells: claim and finish a second", rate_, 500, least=True)


def main() -> None:
    arguments = measure.arguments(__doc__ or "", repeats=3, numbers={"large": LARGE})
    if not find_spec("pgqueuer"):
        print("left out: pgqueuer is not installed")
    with measure.folder(arguments) as folder:
        server = Postgres(synced=True, below=arguments.work, settings=SETTINGS)
        try:
            server.start()
            server.sql("create database peers")
            rates = measured(server, folder, arguments.large, arguments.repeats)
        finally:
            server.remove()
    show(rates, arguments.large)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rates, indent=2) + "\n")


if __name__ == "__main__":
    main()
