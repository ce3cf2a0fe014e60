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

import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from measure import BENCHFLEET, Timed, added, arguments, folder, interleaved
from warm import FRESH, MAKE, environment, python

CONFIGS = {
    "dense": "null",
    "window": "{attention: [{sink: 4}, {local: 16}]}",
    "sink": "{attention: {sink: 24}}",
}
CAMPAIGN = """\
campaign: makespan
matrix:
  models: [{models}]
  configs: {{{configs}}}
  benchmarks: [{{mock_benchmark: {{rows: 1, generation: {{max_new_tokens: {new}}}}}}}]
defaults: {{repeats: {repeats}}}
"""
BARE = """\
import json, sys, time
began = time.perf_counter()
from benchfleet import registry
from benchfleet.domain.cell import Cell
figures = {"loads": [], "compute": 0.0}
class Session:
    recorded = ()
    def __init__(self, cell, adapter):
        self.adapter, self.cell, self.model, self.config = adapter, cell, cell.model, cell.config
        self.subset, self.repeat, self.limit = cell.workload.subset, cell.repeat, None
        self.seed, self.batch_size = cell.data_seed, cell.workload.batch_size
        self.generation = {"seed": cell.data_seed, **cell.workload.generation}
    def record(self, record): pass
    def check_stop(self): pass
    def expect(self, total): pass
    def asking(self, count, *, sample=None):
        import contextlib
        return contextlib.nullcontext()
loaded, adapter = "", None
for line in open(sys.argv[1]):
    cell = Cell.from_dict(json.loads(line))
    begun = time.perf_counter()
    if cell.model.load_key != loaded:
        if adapter is not None:
            adapter.unload()
        adapter = registry.load("models", cell.model.adapter)(cell.model)
        adapter.load()
        loaded = cell.model.load_key
        figures["loads"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
    adapter.configure(cell.config)
    registry.load("benchmarks", cell.workload.benchmark)(cell.workload.params).run(
        Session(cell, adapter))
    figures["compute"] += time.perf_counter() - begun
print(json.dumps(figures))
"""


class Study:
    """One campaign, its cells, and the runs of it."""

    def __init__(
        self,
        models: Sequence[Path],
        configs: int,
        repeats: int,
        work: Path,
        *,
        tokens: int,
        dtype: str,
    ) -> None:
        work.mkdir()
        self.models, self._work, self._count = models, work, itertools.count()
        self._tokens, self._dtype = tokens, dtype
        self._ran: dict[Path, dict[str, str]] = {}
        named = (f"{{name: {m.name}, path: {m}, model_kwargs: {{dtype: {dtype}}}}}" for m in models)
        chosen = ", ".join(f"{name}: {value}" for name, value in list(CONFIGS.items())[:configs])
        self.text = CAMPAIGN.format(
            models=", ".join(named), configs=chosen, new=tokens, repeats=repeats
        )
        file = work / "cells.yaml"
        file.write_text(self.text)
        from benchfleet.bench import open_bench
        from benchfleet.campaign.load import load_campaign

        self.cells = open_bench(load_campaign(file)).cells()

    def _place(self) -> Path:
        place = self._work / str(next(self._count))
        place.mkdir()
        return place

    def shares(self, slots: int) -> list[list[Any]]:
        """The cells of each slot: model by model, cut into parts of one length."""
        order = sorted(self.cells, key=lambda cell: cell.model.name)
        size = -(-len(order) // slots)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def bare(self, slots: int) -> Mapping[str, float]:
        """The bound."""
        place, files = self._place(), []
        for number, share in enumerate(self.shares(slots)):
            files.append(place / f"{number}.jsonl")
            files[-1].write_text("".join(json.dumps(cell.to_dict()) + "\n" for cell in share))
        words = [sys.executable, "-c", BARE]
        begun = time.perf_counter()
        started = [
            subprocess.Popen(
                [*words, str(file)],
                stdout=subprocess.PIPE,
                env=_as_slots(slots),
                start_new_session=True,
            )
            for file in files
        ]
        told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
        whole = time.perf_counter() - begun
        loads = [load for one in told for load in one["loads"]]
        start = whole - max(sum(one["loads"]) + one["compute"] for one in told)
        compute = sum(one["compute"] for one in told)
        ideal = start + (sum(loads) + compute) / slots
        figures = {"whole": whole, "load": loads[-1], "start": start, "ideal": ideal}
        return {**figures, "compute": compute / len(self.cells)}

    def benchfleet(self, slots: int) -> Mapping[str, float]:
        """The whole command, from its start to its end."""
        place = self._place()
        (place / "makespan.yaml").write_text(self.text)
        command = [*BENCHFLEET, "run", "makespan.yaml", "--json", "--cpu-slots", str(slots)]
        begun = time.perf_counter()
        done = subprocess.run(
            command, cwd=place, env=_as_slots(slots), capture_output=True, text=True
        )
        whole = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return {"whole": whole, **self._told(place)}

    def _told(self, place: Path) -> Mapping[str, float]:
        from benchfleet.bench import open_bench
        from benchfleet.campaign.load import load_campaign

        ledger = open_bench(load_campaign(place / "makespan.yaml")).existing_ledger()
        assert ledger is not None
        with closing(ledger):
            claimed = ledger.events(kinds=["claimed"])
            ended = ledger.events(kinds=["finished"])
        outcomes = [event.data["outcome"]["seconds"] for event in ended]
        loads = sorted(one["load"] for one in outcomes)[-len(self.models) :]
        spent = sum(one["load"] + one["benchmark"] for one in outcomes)
        # A cell is claimed when the one before has ended: what is between the first claim and the
        # last finish on one slot, and was not spent on models and samples, is our own.
        began = {event.fingerprint: event.at for event in claimed}
        first, last = dict[str, float](), dict[str, float]()
        for event in ended:
            where = self._slot_of(place, event.fingerprint)
            first[where] = min(first.get(where, began[event.fingerprint]), began[event.fingerprint])
            last[where] = max(last.get(where, 0.0), event.at)
        own = sum(last[where] - first[where] for where in last) - spent
        return {"own": own / len(ended), "change": loads[0], "spent": spent}

    def _slot_of(self, place: Path, fingerprint: str) -> str:
        """On which devices a cell ran."""
        if place not in self._ran:
            found = (json.loads(file.read_bytes()) for file in place.rglob("cell.json"))
            self._ran[place] = {one["fingerprint"]: one["provenance"]["device"] for one in found}
        return self._ran[place][fingerprint]

    def fresh(self, slots: int, sampled: int) -> Mapping[str, float]:
        """A process for each cell, on a few of them; for all of them it takes in proportion."""
        place = self._place()
        count = min(sampled, len(self.cells))
        begun = time.perf_counter()
        with ThreadPoolExecutor(slots) as pool:
            names = [str(self.models[0]), *[str(place / str(n)) for n in range(count)]]
            words = str(self._tokens), self._dtype
            threads = int(_as_slots(slots)["OMP_NUM_THREADS"])
            list(pool.map(lambda n: python(FRESH, names[0], n, *words, threads=threads), names[1:]))
        each = (time.perf_counter() - begun) / count
        return {"whole": each * len(self.cells), "measured": float(count)}


def _as_slots(slots: int) -> dict[str, str]:
    """An environment with the threads that each of so many slots gets."""
    from benchfleet.machines.devices import cores

    return environment(max(1, cores() // slots))


def _metered(run: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
    """What it found, with the CPU seconds of all that it started, and those of everybody else."""
    ours, all_ = _ours(), _everybodys()
    found = run()
    cpu = _ours() - ours
    return {**found, "cpu": cpu, "others": max(0.0, _everybodys() - all_ - cpu)}


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
            place, named = work / part, {"tokens": chosen.tokens, "dtype": chosen.dtype}
            study = Study(used, configs, repeats, place, **named)
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
    found = {
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
        found |= {"fresh": fresh["whole"], "faster": fresh["whole"] / ours["whole"]}
        found["measured"] = fresh["measured"]
    return found


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
        shown = (
            f"{row[figure] * by:.{digits}f}" if figure in row else ""
            for figure, (_, by, digits) in columns.items()
        )
        print(f"| {title} | {' | '.join(shown)} |")
    for title, row in everything.items():
        measured, cells = int(row.get("measured", 0)), int(row["cells"])
        said = f"{title}: a process for each cell was measured on {measured} of {cells} cells"
        if measured:
            print(said + (" and multiplied" if measured < cells else ""))
        if row["change"]:
            change = f"{row['change']:.2f} s, a bare load {row['load']:.2f} s"
            print(f"{title}: another model in a slot took {change}")


if __name__ == "__main__":
    main()
