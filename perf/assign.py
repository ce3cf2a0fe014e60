"""How near to a proven bound the planner comes, and how long it takes: six families of problems.

Labs are studies and machines as people have them, from campaign file and capability reports to the
plan (``tests/labs.py``). The others have eight machines of 1 or 2 slots whose speeds differ up to
16 times; ten cells to a model. The gap is that of the plan, all set-ups and slots counted, to the
bound that was proved.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from measure import aim, arguments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import labs
from benchfleet.planner.solver import solver
from benchfleet.planner.solver.problem import Group, Problem, Way

FAMILIES = (
    "labs",
    "cells repeat",
    "all differ",
    "two cells a model",
    "tight memory",
    "long transfers",
)


def problem(family: str, cells: int, seed: int) -> Problem:
    """Times in seconds; a seed repeats a problem."""
    random = Random(f"{family} {cells} {seed}")
    slots = {f"host{number}": random.randint(1, 2) for number in range(8)}
    speed = {host: 2 ** random.uniform(-2, 2) for host in slots}
    identical = 5 if family == "cells repeat" else 1
    each = 2 if family == "two cells a model" else 10
    smallest = 1.2 if family == "tight memory" else 0.4  # speed that a model of size 1 asks for
    groups, loads, transfers = [], {}, {}
    for number in range(max(1, cells // each)):
        model, size = f"m{number}", random.uniform(0.3, 3)
        fitting = [host for host in slots if speed[host] > smallest * size]
        for host in fitting or [max(speed, key=lambda one: speed[one])]:
            loads[host, model] = random.uniform(10, 120) * size
            slow = 1500 if family == "long transfers" else 100
            if family == "long transfers" or random.random() < 0.7:
                transfers[host, model] = slow * size * random.uniform(0.5, 1.5)
        for _ in range(each // identical):
            work = random.uniform(30, 3600) * size
            ways = {
                host: Way(seconds=work / speed[host] * random.uniform(0.7, 1.3), model=model)
                for host in slots
                if (host, model) in loads
            }
            groups.append(Group(count=identical, ways=ways))
    return Problem(slots=slots, groups=tuple(groups), loads=loads, transfers=transfers)


def gap_and_seconds(family: str, cells: int, seed: int) -> tuple[float, float]:
    """Of the plan, and of making it."""
    if family == "labs":
        with tempfile.TemporaryDirectory() as folder:
            planner, study = labs.assigner(seed, cells=cells, folder=Path(folder))
        begun = time.perf_counter()
        return planner.plan(study, seed=seed).gap, time.perf_counter() - begun
    generated = problem(family, cells, seed)
    begun = time.perf_counter()
    return solver.solve(generated, seed=seed).gap, time.perf_counter() - begun


def main() -> None:
    """Print a table of gaps and seconds by family and number of cells."""
    words = {"cells": "50,200", "families": ",".join(FAMILIES)}
    chosen = arguments(__doc__ or "", repeats=1, numbers={"first": 0}, words=words)
    rows = []
    print("| family | cells | seed | gap % | seconds |\n|---|---|---|---|---|")
    for family in chosen.families.split(","):
        for cells in map(int, chosen.cells.split(",")):
            for seed in range(chosen.first, chosen.first + chosen.repeats):
                gap, took = gap_and_seconds(family, cells, seed)
                row = {"family": family, "cells": cells, "seed": seed, "gap": gap, "seconds": took}
                rows.append(row)
                line = f"| {family} | {cells} | {seed} | {100 * gap:.1f} | {took:.1f} |"
                print(line, flush=True)
    labs_ = [row["gap"] for row in rows if row["family"] == "labs"]
    if labs_:
        aim("plans of labs: gap to the bound, %", 100 * max(labs_), 5)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
