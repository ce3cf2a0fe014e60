"""Slots on a Ray cluster: what a no-op cell costs there, and how long a slot takes to start.

The cluster is two nodes on this machine. `bare Ray` calls eight actors, one call each at a time:
the actor syncs a file, and the driver commits two rows. `bare Ray, our files` syncs as many files
and folders as a cell of benchfleet does. A bare actor answers one call.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import sqlite3
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from measure import BENCHFLEET, aim, arguments, folder, interleaved, seconds, show
from overhead import OUR_FILES

from benchfleet.domain.host import Host
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady, SlotId, SlotLost, SlotReady, SlotSpec
from benchfleet.engines.ray_cluster import RayCluster
from benchfleet.engines.ray_engine import RayEngine
from benchfleet.machines.host_capacity import capacity_from_facts
from ray_clusters import ray_nodes

SLOTS, NODES, STARTS = 8, 2, 5
NO_OP = """\
campaign: noop
defaults: {{repeats: {cells}}}
matrix:
  models: [{{name: m, adapter: mock}}]
  configs: {{dense: null}}
  benchmarks: [{{mock_benchmark: {{rows: 1}}}}]
"""
ON_RAY = 'engine: {{ray: {{address: "{address}", cpu_slots: {slots}}}}}\n'


def no_ops(work: Path, cells: int, address: str = "") -> Mapping[str, float]:
    """Seconds for each cell that ended after all slots were up, as the bare actors are; on this
    machine without Ray where no address is given."""
    work.mkdir(parents=True)
    text = NO_OP.format(cells=cells)
    if address:
        text += ON_RAY.format(address=address, slots=SLOTS // NODES)
    (work / "campaign.yaml").write_text(text)
    words = [*BENCHFLEET, "run", "campaign.yaml", "--json", "--log-json"]
    words += [] if address else ["--cpu-slots", str(SLOTS)]
    seconds(["sh", "-c", f"{shlex.join(words)} 2> log.jsonl"], cwd=work)
    events = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    begun = [line["time"] for line in events if line["kind"] == "slot_ready"]
    ended = [line["time"] for line in events if line["kind"] == "cell_done"]
    measured = sum(time > begun[-1] for time in ended)
    if len(begun) != SLOTS or measured < cells / 2:
        raise SystemExit(f"{len(begun)} slots, {measured} cells after they were up: use more cells")
    return {"cell": (ended[-1] - begun[-1]) / measured}


class Writer:
    """The bare actor: each call writes files and syncs them."""

    def write(self, file: str) -> int:
        """One file."""
        _write(file)
        return os.getpid()

    def publish(self, folder: str) -> int:
        """As many files as a cell of benchfleet syncs, in a folder that is renamed at last."""
        os.mkdir(f"{folder}.part")
        for number in range(OUR_FILES):
            _write(f"{folder}.part/{number}.json")
        _sync(f"{folder}.part")
        os.rename(f"{folder}.part", folder)
        _sync(os.path.dirname(folder))
        return os.getpid()


def _write(file: str) -> None:
    with open(file, "w") as out:
        out.write('{"accuracy": 1}\n')
        out.flush()
        os.fsync(out.fileno())


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def bare(work: Path, cells: int, method: str) -> Mapping[str, float]:
    """Calls of this method of eight actors that are up, one call each at a time."""
    import ray

    work.mkdir(parents=True)
    remote: Any = ray.remote(Writer)
    actors = [remote.options(num_cpus=1).remote() for _ in range(SLOTS)]
    ray.get([actor.write.remote(str(work / f"warm-{n}")) for n, actor in enumerate(actors)])
    with closing(sqlite3.connect(work / "rows.db", isolation_level=None)) as rows:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("PRAGMA synchronous=FULL")
        rows.execute("CREATE TABLE cells (number INTEGER, state TEXT)")
        running: dict[Any, tuple[Any, int]] = {}
        numbers = iter(range(cells))

        def begin(actor: Any) -> None:
            if (number := next(numbers, None)) is not None:
                rows.execute("INSERT INTO cells VALUES (?, 'begun')", (number,))
                call = getattr(actor, method).remote(str(work / str(number)))
                running[call] = actor, number

        begun = time.perf_counter()
        for actor in actors:
            begin(actor)
        while running:
            for ended in ray.wait(list(running))[0]:
                actor, number = running.pop(ended)
                ray.get(ended)
                rows.execute("INSERT INTO cells VALUES (?, 'ended')", (number,))
                begin(actor)
        took = time.perf_counter() - begun
    for actor in actors:
        ray.kill(actor)
    return {"cell": took / cells}


def starts(work: Path) -> dict[str, float]:
    """The median seconds until a slot, and a bare actor, is ready; they take turns."""
    import ray

    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    engine = RayEngine(
        events.put, cluster=RayCluster(), like=Host(name="ray"), examine=capacity_from_facts
    )
    remote: Any = ray.remote(Writer)
    slots, actors = [], []
    try:
        host = awaited(events, HostReady).host
        for number in range(STARTS):
            begun = time.perf_counter()
            device = Device(kind="cpu", index=0, host=host)
            slot = SlotId(f"perf-{number}")
            spec = SlotSpec(slot=slot, devices=(device,), threads=1, log=str(work / "log"))
            engine.open(spec)
            awaited(events, SlotReady)
            slots.append(time.perf_counter() - begun)
            engine.kill(slot)
            begun = time.perf_counter()
            actor = remote.options(num_cpus=1).remote()
            ray.get(actor.write.remote(str(work / "one")))
            actors.append(time.perf_counter() - begun)
            ray.kill(actor)
    finally:
        engine.shutdown()
    return {"slot": statistics.median(slots), "actor": statistics.median(actors)}


def awaited(events: queue.SimpleQueue[Any], kind: type[Any]) -> Any:
    """The next event of this kind."""
    while not isinstance(event := events.get(timeout=120), kind):
        if isinstance(event, SlotLost) and not event.expected:
            raise SystemExit(event.reason)
    return event


def main() -> None:
    chosen = arguments(__doc__ or "", repeats=3, numbers={"cells": 6000})
    with folder(chosen) as work, ray_nodes(cpus=0) as nodes:
        for _ in range(NODES):
            nodes.add(cpus=2 * SLOTS // NODES)
        RayCluster(nodes.address)
        count, cells = iter(range(10**6)), chosen.cells

        def fresh() -> Path:
            return work / str(next(count))

        figures = interleaved(
            {
                "benchfleet": lambda: no_ops(fresh(), cells, nodes.address),
                "benchfleet without Ray": lambda: no_ops(fresh(), cells),
                "bare Ray": lambda: bare(fresh(), cells, "write"),
                "bare Ray, our files": lambda: bare(fresh(), cells, "publish"),
            },
            chosen.repeats,
        )
        start = starts(work)
    show(figures, {"cell": ("ms a cell", 1e3)}, against="bare Ray", by="cell", arguments=chosen)
    print(f"start: a slot {start['slot']:.2f} s, a bare actor {start['actor']:.2f} s")
    for peer in ("bare Ray", "bare Ray, our files"):
        rate = figures[peer]["cell"] / figures["benchfleet"]["cell"]
        aim(f"no-op cells on Ray: x the rate of {peer}", rate, 0.7, least=True)
    aim("start of a slot on Ray: x that of a bare actor", start["slot"] / start["actor"], 1.5)
    aim("start of a slot on Ray: s", start["slot"], 1)


if __name__ == "__main__":
    main()
