"""What a no-op cell costs: 200 of them, two slots, SQLite, beside peers on the same work.

Every system leaves a durable record of each cell and would skip it the next time. `raw` is the
bound: two warm processes, one SQLite row claimed and finished in two synced commits, one result
file synced, renamed, its folders synced. `raw, our files` syncs as many files as benchfleet does.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from measure import BENCHFLEET, aim, arguments, folder, interleaved, missing, seconds, show

CELLS = 200
AIMS = {"raw": 4.0, "GNU parallel": 0.7}  # ratios to a cell of these
OUR_FILES = 5  # of a cell that prints nothing; an empty log needs no sync
CAMPAIGN = """\
campaign: noop
cpu_slots: 2
defaults: {repeats: CELLS}
matrix:
  models: [{name: m, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{mock_benchmark: {rows: 1}}]
"""
SNAKEFILE = """\
rule all:
    input: expand("out/{i}.json", i=range(int(config["cells"])))
rule cell:
    output: "out/{i}.json"
    shell: "echo {wildcards.i} > {output}"
"""
PARALLEL = (
    f"mkdir -p out; seq 0 {CELLS - 1} | parallel --will-cite -j2 --joblog log --resume "
    "'echo {} > out/.t{} && mv out/.t{} out/{}.json'"
)


def benchfleet(work: Path) -> Mapping[str, float]:
    """benchfleet itself, with its ledger's times of the first claim and the last finish."""
    work.mkdir(parents=True)
    (work / "noop.yaml").write_text(CAMPAIGN.replace("CELLS", str(CELLS)))
    whole = seconds([*BENCHFLEET, "run", "noop.yaml"], cwd=work)
    with closing(sqlite3.connect(work / "benchmark_results" / "noop" / "ledger.db")) as ledger:
        kinds = dict(ledger.execute("select kind, count(*) from event group by kind"))
        ((took,),) = ledger.execute(
            "select max(at) - min(at) from event where kind in ('claimed', 'finished')"
        )
    if kinds["finished"] != CELLS:
        raise SystemExit(f"{kinds['finished']} cells were finished, not {CELLS}")
    again = seconds([*BENCHFLEET, "run", "noop.yaml"], cwd=work)
    return {"cell": took / CELLS, "startup": whole - took, "whole": whole, "again": again}


def raw(work: Path, files: int) -> Mapping[str, float]:
    """The least that two processes and a durable ledger can do."""
    begun = time.perf_counter()
    (work / "out").mkdir(parents=True)
    ledger = sqlite3.connect(work / "ledger.db", isolation_level=None)
    ledger.execute("pragma journal_mode = wal")
    ledger.execute("pragma synchronous = full")
    ledger.execute("create table cell (id integer primary key, state int not null, token text)")
    ledger.execute("create index pending on cell (id) where state = 0")
    ledger.execute("begin")
    ledger.executemany("insert into cell values (?, 0, null)", [(i,) for i in range(CELLS)])
    ledger.execute("commit")
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        context.Process(target=_worker, args=(theirs, str(work), files), daemon=True).start()
        pipes.append(ours)
    for pipe in pipes:
        pipe.recv()
    started = time.perf_counter()
    busy: list[Any] = [pipe for pipe in pipes if _claim(ledger, pipe)]
    while busy:
        ready: list[Any] = wait(busy)
        for pipe in ready:
            done = pipe.recv()
            ledger.execute("update cell set state = 2 where id = ? and state = 1", (done,))
            if not _claim(ledger, pipe):
                busy.remove(pipe)
    took = time.perf_counter() - started
    for pipe in pipes:
        pipe.send(None)
    ledger.close()
    return {"cell": took / CELLS, "startup": started - begun, "whole": took + started - begun}


def _claim(ledger: sqlite3.Connection, pipe: Connection) -> bool:
    row = ledger.execute(
        "update cell set state = 1, token = ? where id = "
        "(select id from cell where state = 0 order by id limit 1) returning id",
        (os.urandom(8).hex(),),
    ).fetchone()
    if row is not None:
        pipe.send(row[0])
    return row is not None


def _worker(pipe: Connection, work: str, files: int) -> None:
    pipe.send("ready")
    while (cell := pipe.recv()) is not None:
        folder = f"{work}/out/.{cell}"
        os.mkdir(folder)
        for number in range(files):
            with open(f"{folder}/{number}.json", "w") as file:
                file.write(f'{{"cell": {cell}}}')
                file.flush()
                os.fsync(file.fileno())
        _sync(folder)
        os.rename(folder, f"{work}/out/{cell}")
        _sync(f"{work}/out")
        pipe.send(cell)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def shell(work: Path, command: str, files: Mapping[str, str] | None = None) -> Mapping[str, float]:
    """A peer that has no clock of its own: its start-up is that of a run over nothing left."""
    work.mkdir(parents=True)
    for name, text in (files or {}).items():
        (work / name).write_text(text)
    whole = seconds(["bash", "-c", command], cwd=work)
    again = seconds(["bash", "-c", command], cwd=work)
    return {"cell": (whole - again) / CELLS, "startup": again, "whole": whole, "again": again}


def process_each() -> str:
    """A shell loop with a fresh Python for each cell, two at a time."""
    body = "import os;f=open('out/.t$i','w');f.write('$i');f.close();os.rename('out/.t$i','out/$i')"
    return (
        f"mkdir -p out; k=0; for ((i=0;i<{CELLS};i++)); do [ -e out/$i ] && continue; "
        "while [ $k -ge 2 ]; do wait -n; k=$((k-1)); done; "
        f'{sys.executable} -c "{body}" & k=$((k+1)); done; wait'
    )


def main() -> None:
    chosen = arguments(__doc__ or "")
    with folder(chosen) as work:
        count = iter(range(10**6))

        def fresh() -> Path:
            return work / str(next(count))

        systems = {
            "raw": lambda: raw(fresh(), 1),
            "raw, our files": lambda: raw(fresh(), OUR_FILES),
            "benchfleet": lambda: benchfleet(fresh()),
            "a Python for each cell": lambda: shell(fresh(), process_each()),
        }
        if not missing("parallel"):
            systems["GNU parallel"] = lambda: shell(fresh(), PARALLEL)
        if not missing("snakemake"):
            command = f"snakemake -c2 -q all --nocolor --config cells={CELLS}"
            systems["Snakemake"] = lambda: shell(fresh(), command, {"Snakefile": SNAKEFILE})
        figures = interleaved(systems, chosen.repeats)
    show(
        figures,
        {"cell": ("ms a cell", 1e3), "startup": ("start-up s", 1), "whole": ("whole run s", 1)},
        against="raw",
        by="cell",
        arguments=chosen,
    )
    for peer, bound in AIMS.items():
        if peer in figures:
            ratio = figures["benchfleet"]["cell"] / figures[peer]["cell"]
            aim(f"a no-op cell, all synced, two slots: x {peer}", ratio, bound)


if __name__ == "__main__":
    main()
