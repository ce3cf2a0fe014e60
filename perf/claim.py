"""What a claim costs where 1,000,000 cells wait and 100 of them fit, by policy.

Beside it a raw SQL loop on a table of as many rows with the one right index: what SQLite takes for
the same step where somebody knows beforehand what will be asked.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import measure

from benchfleet import registry
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell, Config, Model, Workload
from benchfleet.domain.resource import Choice, Need, Offer
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.policies.base import Work

WAITING, FITTING, MODELS = 1_000_000, 100, 10
CLAIMS = 50
ME = RunnerId("perf")


def cells() -> list[Cell]:
    """Most of them need more GPUs than the slot has."""
    models = [
        Model(name=f"model-{n}", adapter="mock", source=f"/m{n}", digest=f"d{n}")
        for n in range(MODELS)
    ]
    work = [Workload(benchmark=f"benchmark-{n}", version="1") for n in range(100)]
    config = Config(name="dense")
    large, small = Need(gpus=8), Need(gpus=1)
    step = WAITING // FITTING
    return [
        Cell(
            model=models[n % MODELS],
            config=config,
            workload=work[n // MODELS % len(work)],
            repeat=n,
            repeats=True,
            need=small if n % step == n // step % MODELS else large,
        )
        for n in range(WAITING)
    ]


def timed(step: Callable[[], object], undo: Callable[[object], None]) -> float:
    """The median of many, in seconds; what each did is undone outside."""
    times = []
    for _ in range(CLAIMS):
        begun = time.perf_counter()
        done = step()
        times.append(time.perf_counter() - begun)
        undo(done)
    return statistics.median(times)


def raw(path: Path) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.execute("create table cell (n integer primary key, gpus int, rank real, held int)")
        database.execute("begin")
        rows = (
            (n, 1 if n % (WAITING // FITTING) == 0 else 8, -float(n % 97)) for n in range(WAITING)
        )
        database.executemany("insert into cell values (?, ?, ?, 0)", rows)
        database.execute("create index waiting on cell (gpus, rank, n) where held = 0")
        database.execute("commit")

        def claim() -> int:
            database.execute("begin immediate")
            found: int = database.execute(
                "select n from cell where held = 0 and gpus = 1 order by rank, n limit 1"
            ).fetchone()[0]
            database.execute("update cell set held = 1 where n = ?", (found,))
            database.execute("commit")
            return found

        def undo(n: object) -> None:
            database.execute("update cell set held = 0 where n = ?", (n,))

        return timed(claim, undo)


def policy_offer(name: str, waiting: Sequence[Cell]) -> Offer:
    policy = registry.load("policies", name)()
    choice = Choice()
    for place, cell in enumerate(waiting):
        choice.put(cell.fingerprint, policy.rank(cell, 1.0 + place % 97))
    keys = dict.fromkeys(cell.model.load_key for cell in waiting[:MODELS])
    works = [Work(load_key=key, cells=10, seconds=500.0, known=True, load=60.0) for key in keys]
    wish = policy.wish(works[0].load_key, works)
    assert wish is not None
    return Offer(gpus=1, models=wish.models, others=wish.others, among=choice)


def main() -> None:
    arguments = measure.arguments(__doc__ or "", repeats=1)
    waiting = cells()
    figures: dict[str, dict[str, float]] = {}
    with measure.folder(arguments) as folder:
        figures["raw SQL"] = {"claim": raw(folder / "raw.db"), "first": 0.0}
        with closing(SqliteLedger(folder / "ledger.db", campaign="perf")) as ledger:
            ledger.enroll(waiting)

            def release(claims: object) -> None:
                assert isinstance(claims, list)
                assert len(claims) == 1
                ledger.release([claim.lease for claim in claims], "measured")

            offers = {name: policy_offer(name, waiting) for name in registry.names("policies")}
            offers["any cell (no choice)"] = Offer(gpus=1)
            for name, offer in offers.items():
                begun = time.perf_counter()
                release(ledger.claim(ME, offer))
                first = time.perf_counter() - begun
                claim = timed(lambda offer=offer: ledger.claim(ME, offer), release)  # type: ignore[misc]
                figures[name] = {"claim": claim, "first": first}
    columns = {"claim": ("a claim, ms", 1000.0), "first": ("the first of a run, s", 1.0)}
    measure.show(figures, columns, against="raw SQL", by="claim", arguments=arguments)


if __name__ == "__main__":
    main()
