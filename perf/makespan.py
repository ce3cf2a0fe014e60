"""How near a run comes to the shortest time that its cells allow, on real slots and real models.

Two campaigns on random 0.37 B models made here: 2 models × 3 configs × 4 repeats (`--part small`),
and 200 cells of one model (`--part many`); each with one slot and with two (`--slots`). The four
parts can be measured one by one: `--part many --slots 2 --json FILE` adds its figures to what the
file has, and prints the table of all of it. `--tokens 1 --dtype float32 --repeats 1` and a folder
that keeps the models (`--models`) have each part end in less than eight minutes.

The ideal is the pure compute of all cells, as it was measured with so many at a time, shared out
evenly over the slots, and for each slot one start and the loads of the models that it needs. It is
measured by the same cells in bare processes: one for each slot, which imports, loads each of its
models once, and does with adapter and benchmark what a slot does, cell by cell, with no runner, no
ledger and no result on any disk. Each model is given to as few of them as keeps all equally long,
so that nothing is loaded twice for nothing.

Repetitions take turns. Of benchfleet's run the ledger's own events tell what a cell took beside
loading and computing (slot by slot, from its first claim to its last finish), and what a change of
model took beside a bare load. Where others use the machine one cell takes many times as long as
another: so the whole run is also set against the time that its own loads and cells took, spread
over the slots, and one start of a bare process; and the CPU time of all its processes against that
of the bare ones, beside what others took of the machine meanwhile. As slots do, bare processes have
sessions of their own, by which Linux shares out the cores. A process for each cell is measured on a
few cells (`--fresh`; 0 leaves it out), and multiplied, which the table says.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from measure import Timed, added, aim, arguments, folder, interleaved
from random_study import Study
from warm import MAKE, python


def _metered(run: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """What it found, with the CPU seconds of all that it started, and those of everybody else."""
    ours, all_ = _ours(), _everybodys()
    results = run()
    cpu = _ours() - ours
    return {**results, "cpu": cpu, "others": max(0.0, _everybodys() - all_ - cpu)}


def _ours() -> float:
    """CPU seconds of this process and of those that it waited for."""
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _everybodys() -> float:
    """CPU seconds of the machine, those included that its host took from it."""
    import psutil

    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def main() -> None:
    numbers: dict[str, int | None] = {"cells": 200, "slots": None, "tokens": 6, "fresh": 6}
    words = {"part": "", "models": "", "dtype": "bfloat16"}
    chosen = arguments(__doc__ or "", repeats=3, numbers=numbers, words=words)
    with folder(chosen) as work:
        models = [Path(chosen.models or work).absolute() / name for name in ("one", "other")]
        for seed, model in enumerate(models):
            if not model.is_dir():
                python(MAKE, str(model), str(seed))
        shapes = {
            "small": ("2 models, 3 configs, 4 repeats", models, 3, 4),
            "many": (f"{chosen.cells} cells of one model", models[:1], 1, chosen.cells),
        }
        for part in [chosen.part] if chosen.part else shapes:
            name, used, configs, repeats = shapes[part]
            slot, named = work / part, {"tokens": chosen.tokens, "dtype": chosen.dtype}
            study = Study(used, configs, repeats, slot, **named)
            for slots in [chosen.slots] if chosen.slots else (1, 2):
                measured = _measured(study, slots, chosen)
                title = f"{name}, {slots} slot{'s' if slots > 1 else ''}"
                everything = added({title: measured}, chosen.json)
                if not chosen.json:
                    _tell(everything)
    if chosen.json:
        _tell(everything)


def _measured(study: Study, slots: int, chosen: Any) -> dict[str, float]:
    """Medians, in one row."""
    systems: dict[str, Timed] = {
        "bare processes": lambda: _metered(lambda: study.bare(slots)),
        "benchfleet": lambda: _metered(lambda: study.benchfleet(slots)),
    }
    if chosen.fresh:
        systems["fresh"] = lambda: study.fresh(slots, chosen.fresh)
    figures = interleaved(systems, chosen.repeats)
    ours, bare, fresh = figures["benchfleet"], figures["bare processes"], figures.get("fresh")
    results = {
        "cells": float(len(study.cells)),
        "compute": bare["compute"],
        "start": bare["start"],
        "load": bare["load"],
        "ideal": bare["ideal"],
        "bare": bare["whole"],
        "ours": ours["whole"],
        "ratio": ours["whole"] / bare["ideal"],
        "of its own": ours["whole"] / (bare["start"] + ours["spent"] / slots),
        "own": ours["own"],
        "change": ours["change"] if len(study.models) > slots else 0.0,
        "bare cpu": bare["cpu"],
        "cpu": ours["cpu"],
        "others": (bare["others"] + ours["others"]) / (bare["whole"] + ours["whole"]),
    }
    if fresh:
        results |= {"fresh": fresh["whole"], "faster": fresh["whole"] / ours["whole"]}
        results["measured"] = fresh["measured"]
    return results


def _tell(everything: Mapping[str, Mapping[str, float]]) -> None:
    """Everything that was measured so far."""
    columns = {
        "compute": ("compute a cell, s", 1.0, 3),
        "ideal": ("ideal s", 1.0, 1),
        "bare": ("bare processes s", 1.0, 1),
        "ours": ("benchfleet s", 1.0, 1),
        "ratio": ("to the ideal", 1.0, 3),
        "of its own": ("to its own loads and cells", 1.0, 3),
        "own": ("own ms a cell", 1e3, 1),
        "bare cpu": ("CPU s of bare processes", 1.0, 1),
        "cpu": ("of benchfleet", 1.0, 1),
        "others": ("of others, each second", 1.0, 2),
        "fresh": ("a process for each cell s", 1.0, 0),
        "faster": ("as many times ours", 1.0, 1),
    }
    print(f"\n| | {' | '.join(head for head, _, _ in columns.values())} |")
    print("|---" * (len(columns) + 1) + "|")
    for title, row in everything.items():
        text = (
            f"{row[figure] * by:.{digits}f}" if figure in row else ""
            for figure, (_, by, digits) in columns.items()
        )
        print(f"| {title} | {' | '.join(text)} |")
    for title, row in everything.items():
        aim(f"{title}: x the ideal", row["ratio"], 1.05)
        measured, cells = int(row.get("measured", 0)), int(row["cells"])
        output = f"{title}: a process for each cell was measured on {measured} of {cells} cells"
        if measured:
            print(output + (" and multiplied" if measured < cells else ""))
        if row["change"]:
            change = f"{row['change']:.2f} s, a bare load {row['load']:.2f} s"
            print(f"{title}: another model in a slot took {change}")


if __name__ == "__main__":
    main()
