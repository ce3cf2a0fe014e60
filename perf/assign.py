"""How near to a proven bound the planner comes, and how long it takes: five families of problems.

Eight machines of 1 or 2 slots, whose speeds differ by up to 16 times; ten cells to a model. The gap
is that of the plan, all set-ups and slots counted, to the bound that CP-SAT proved.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random

from measure import arguments

from benchfleet.machines.assign import solver
from benchfleet.machines.assign.problem import Group, Problem, Way

FAMILIES = ("cells repeat", "all differ", "two cells a model", "tight memory", "long transfers")


def problem(family: str, cells: int, seed: int) -> Problem:
    """Times in seconds; a seed repeats a problem."""
    random = Random(f"{family} {cells} {seed}")
    slots = {f"host{number}": random.randint(1, 2) for number in range(8)}
    speed = {host: 2 ** random.uniform(-2, 2) for host in slots}
    alike = 5 if family == "cells repeat" else 1
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
        for _ in range(each // alike):
            work = random.uniform(30, 3600) * size
            ways = {
                host: Way(seconds=work / speed[host] * random.uniform(0.7, 1.3), model=model)
                for host in slots
                if (host, model) in loads
            }
            groups.append(Group(count=alike, ways=ways))
    return Problem(slots=slots, groups=tuple(groups), loads=loads, transfers=transfers)


def main() -> None:
    """Print a table of gaps and seconds by family and number of cells."""
    chosen = arguments(__doc__ or "", repeats=1, words={"cells": "50,200"})
    rows = []
    print("| family | cells | gap % | seconds |\n|---|---|---|---|")
    for family in FAMILIES:
        for cells in map(int, chosen.cells.split(",")):
            for seed in range(chosen.repeats):
                asked = problem(family, cells, seed)
                begun = time.perf_counter()
                found = solver.solved(asked, seed=seed)
                took = time.perf_counter() - begun
                rows.append({"family": family, "cells": cells, "gap": found.gap, "seconds": took})
                print(f"| {family} | {cells} | {100 * found.gap:.1f} | {took:.1f} |", flush=True)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
