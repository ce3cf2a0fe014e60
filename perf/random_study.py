"""A campaign on random models, run by bare processes, by benchfleet, and by one process a cell."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from measure import BENCHFLEET
from warm import FRESH, environment, python

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
class Session:  # what a benchmark asks of a slot
    recorded, part, samples_per_question = (), None, 1
    def __init__(self, cell, adapter):
        self.adapter, self.cell, self.model, self.config = adapter, cell, cell.model, cell.config
        self.subset, self.repeat, self.limit = cell.workload.subset, cell.repeat, None
        self.seed, self.batch_size = cell.data_seed, cell.workload.batch_size
        self.generation = {"seed": cell.data_seed, **cell.workload.generation}
    def record(self, record): pass
    def check_stop(self): pass
    def expect(self, total): pass
    def notice(self, message): pass
    def checkpoint(self, metrics): pass
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
        from benchfleet.campaign.load import load_campaign
        from benchfleet.study import open_study

        self.cells = open_study(load_campaign(file)).cells()

    def _new_folder(self) -> Path:
        folder = self._work / str(next(self._count))
        folder.mkdir()
        return folder

    def shares(self, slots: int) -> list[list[Any]]:
        """The cells of each slot: model by model, cut into parts of one length."""
        order = sorted(self.cells, key=lambda cell: cell.model.name)
        size = -(-len(order) // slots)
        return [order[start : start + size] for start in range(0, len(order), size)]

    def bare(self, slots: int) -> Mapping[str, float]:
        """The bound."""
        folder, files = self._new_folder(), []
        for number, share in enumerate(self.shares(slots)):
            files.append(folder / f"{number}.jsonl")
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
        reports = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
        whole = time.perf_counter() - begun
        loads = [load for one in reports for load in one["loads"]]
        start = whole - max(sum(one["loads"]) + one["compute"] for one in reports)
        compute = sum(one["compute"] for one in reports)
        ideal = start + (sum(loads) + compute) / slots
        figures = {"whole": whole, "load": loads[-1], "start": start, "ideal": ideal}
        return {**figures, "compute": compute / len(self.cells)}

    def benchfleet(self, slots: int) -> Mapping[str, float]:
        """The whole command, from its start to its end."""
        folder = self._new_folder()
        (folder / "makespan.yaml").write_text(self.text)
        command = [*BENCHFLEET, "run", "makespan.yaml", "--json", "--cpu-slots", str(slots)]
        begun = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=_as_slots(slots), capture_output=True, text=True
        )
        whole = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return {"whole": whole, **self._measured(folder)}

    def _measured(self, folder: Path) -> Mapping[str, float]:
        from benchfleet.campaign.load import load_campaign
        from benchfleet.study import open_study

        ledger = open_study(load_campaign(folder / "makespan.yaml")).open_existing_ledger()
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
            where = self._slot_of(folder, event.fingerprint)
            first[where] = min(first.get(where, began[event.fingerprint]), began[event.fingerprint])
            last[where] = max(last.get(where, 0.0), event.at)
        own = sum(last[where] - first[where] for where in last) - spent
        return {"own": own / len(ended), "change": loads[0], "spent": spent}

    def _slot_of(self, folder: Path, fingerprint: str) -> str:
        """On which devices a cell ran."""
        if folder not in self._ran:
            cells = (json.loads(file.read_bytes()) for file in folder.rglob("cell.json"))
            self._ran[folder] = {one["fingerprint"]: one["provenance"]["device"] for one in cells}
        return self._ran[folder][fingerprint]

    def fresh(self, slots: int, sampled: int) -> Mapping[str, float]:
        """A process for each cell, on a few of them; for all of them it takes in proportion."""
        folder = self._new_folder()
        count = min(sampled, len(self.cells))
        begun = time.perf_counter()
        with ThreadPoolExecutor(slots) as pool:
            names = [str(self.models[0]), *[str(folder / str(n)) for n in range(count)]]
            words = str(self._tokens), self._dtype
            threads = int(_as_slots(slots)["OMP_NUM_THREADS"])
            list(pool.map(lambda n: python(FRESH, names[0], n, *words, threads=threads), names[1:]))
        each = (time.perf_counter() - begun) / count
        return {"whole": each * len(self.cells), "measured": float(count)}


def _as_slots(slots: int) -> dict[str, str]:
    """An environment with the threads that each of so many slots gets."""
    from benchfleet.machines.devices import cores

    return environment(max(1, cores() // slots))
