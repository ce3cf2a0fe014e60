"""How the runner bears size: its time and memory for 1,000 and 10,000 simulated slots and up to
1,000,000 cells, and the local engine's for 1,000 real pipes to trivial slots on this machine.

The loop, the ledger (SQLite in memory) and the leases are the real ones. Slots are simulated and no
attempt has a folder; the simulation's own time is counted apart. A trivial slot is a bare
interpreter that speaks frames. Each size runs in a process of its own, and the time is that
process's CPU time. The ranking before the duration of each kind of cell is known is counted apart.
Large runs end after some 30,000 cells (`RUN`; `--run N`; `--ended N` adds cells that ended before).
On a shared machine CPU time varies: the process therefore runs a piece of a bare loop after every
hundredth cell, and times are given in its steps too. Compare rows with similar steps.

Memory is what the process has, in parts: of a cell that is declared, enrolled and waits; of a slot
that is open and has a cell at hand; and what stays of a cell that ended.

It needs PYTHONPATH=tests. All of it takes an hour. In parts: `--slots 1000 --cells 100000 --json
FILE` (or `--real 1` for the pipes) measures one size, adds it to what the file has of others, and
prints the table of all.

`--nodes 1250 --losses 1000` spreads the slots over nodes, of which so many are lost in mid-cell
and return after a minute. Where all cells run, it also says what became of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from measure import added, aim, arguments, folder
from real_pipes import piped
from simulated_slots import simulated

SIZES = tuple((slots, cells) for slots in (1_000, 10_000) for cells in (10_000, 100_000, 10**6))
RUN = 30_000  # cells after which a large run ends, and as many more as there are slots
IN_MEMORY = "/dev/shm"  # noqa: S108 - syncing costs nothing there
PIPES, PIPED_CELLS = 1_000, 10_000


def one(
    slots: int, cells: int, *, ended: int, run: int, real: bool, nodes: int = 0, losses: int = 0
) -> Mapping[str, float]:
    """The figures of one size, from a process of its own."""
    arguments = {
        "slots": slots, "cells": cells, "ended": ended, "run": run, "real": int(real),
        "nodes": nodes, "losses": losses,
    }  # fmt: skip
    words = [word for name, number in arguments.items() for word in (f"--{name}", str(number))]
    done = subprocess.run(
        [sys.executable, __file__, *words, "--inside", "1"], stdout=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    results: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return results


def main() -> None:
    chosen = arguments(
        __doc__ or "", repeats=1,
        numbers={
            "slots": None, "cells": None, "real": 0, "most": 10**6, "ended": 0, "run": None,
            "inside": 0, "nodes": 0, "losses": 0,
        },
    )  # fmt: skip
    if chosen.inside:
        _inside(chosen)
        return
    sizes = [(chosen.slots, chosen.cells)] if chosen.slots and chosen.cells else SIZES
    results = {}
    for slots, cells in () if chosen.real else sizes:
        if cells > chosen.most:
            continue
        run = chosen.run or (cells if cells <= RUN + slots else RUN + slots)
        name = f"{slots:,} slots, {cells:,} cells"
        name += f", of which {chosen.ended:,} ended before" if chosen.ended else ""
        name += f", {run:,} run" if run < cells else ""
        nodes = {"nodes": chosen.nodes, "losses": chosen.losses}
        name += f", {chosen.nodes:,} nodes, {chosen.losses:,} lost" if chosen.nodes else ""
        results[name] = one(slots, cells, ended=chosen.ended, run=run, real=False, **nodes)
        added(results, chosen.json)  # if it is cut
    if chosen.real or not chosen.slots:
        slots, orders = chosen.slots or PIPES, chosen.cells or PIPED_CELLS
        name = f"{slots:,} real pipes, {orders:,} orders"
        results[name] = one(slots, orders, ended=0, run=orders, real=True)
    _tell(added(results, chosen.json))


def _inside(chosen: Any) -> None:
    """Measure one size in this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if chosen.work is None and os.access(IN_MEMORY, os.W_OK):
        chosen.work = IN_MEMORY
    with folder(chosen) as work:
        size = chosen.slots, chosen.cells, work
        if chosen.real:
            print(json.dumps(piped(*size)))
        else:
            nodes = {"nodes": chosen.nodes, "losses": chosen.losses}
            print(json.dumps(simulated(*size, before=chosen.ended, most=chosen.run, **nodes)))


def _tell(figures: Mapping[str, Mapping[str, float]]) -> None:
    """Everything that was measured so far."""
    runs = {name: row for name, row in figures.items() if "waiting" in row}
    columns = {
        "steps": ("thousand steps of a bare loop a cell", 1e-3),
        "cell": ("ms of CPU a cell", 1e3),
        "loop": ("of these, the loop", 1e3),
        "ledger": ("its ledger", 1e3),
        "bare": ("ns a step of a bare loop", 1e9),
        "begin": ("s before these", 1.0),
        "waiting": ("kB a cell that waits", 1e-3),
        "slot": ("kB a slot with a cell", 1e-3),
        "ended": ("kB a cell that ended", 1e-3),
        "whole": ("MB in all", 1e-6),
    }
    if runs:
        print(f"| | {' | '.join(head for head, _ in columns.values())} |")
        print("|---" * (len(columns) + 1) + "|")
    for name, row in runs.items():
        text = (f"{row.get(figure, 0) * factor:.2f}" for figure, (_, factor) in columns.items())
        print(f"| {name} | {' | '.join(text)} |")
    for name, row in runs.items():
        if "nodes_lost" in row:
            print(
                f"{name}: {row['nodes_lost']:,.0f} nodes lost, {row['interrupted']:,.0f} attempts "
                f"interrupted, {row['charged']:,.0f} tries charged, {row['twice']:,.0f} cells done "
                f"twice, {row['lasted']:.2f} x the ideal time"
            )
    for name, row in runs.items():
        aim(f"{name}: ms of runner time a cell", row["cell"] * 1e3, 3)
    for name, row in figures.items():
        if "shutdown" in row:
            print(
                f"{name}: ready in {row['ready']:.1f} s, {row['slot'] / 1e6:.1f} MB a slot, "
                f"{row['cell'] * 1e3:.2f} ms of CPU for an order (a bare step: "
                f"{row['bare'] * 1e9:.0f} ns), all ended in {row['shutdown']:.1f} s"
            )


if __name__ == "__main__":
    main()
