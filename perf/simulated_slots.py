"""A run on simulated slots; its own time and memory are counted apart from the simulation.

The slots are this machine's, or those of nodes that are lost and return during the run.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from measure import bare_step

KINDS = 1000  # of cells, that differ in more than their repeat
EVERY, STEPS = 100, 10_000  # cells between two pieces of the bare loop, and steps in each
LOAD_S, SAMPLE_S = 1.0, 30.0  # of each cell, in the time of the simulation
RETURNS_IN_S = 60.0  # until a lost node is here again


def simulated(
    slots: int, cells: int, work: Path, *, before: int, most: int, nodes: int = 0, losses: int = 0
) -> dict[str, Any]:
    """One run on simulated slots, of which `before` cells have ended, until `most` more have.

    The slots are on so many nodes, of which some are lost one after the other, `losses` in all.
    """
    import random

    from parts import BARE, LEDGER, RUNNER, SIMULATION, Metered, MeteredTurns, Parts

    from benchfleet.domain.attempt import RunnerId
    from benchfleet.engines.base import SlotSpec
    from benchfleet.ledger.sqlite.ledger import SqliteLedger
    from benchfleet.results.layout import Layout
    from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
    from benchfleet.runner.build import RunnerComponents as RunnerParts
    from benchfleet.runner.context import RunnerContext
    from benchfleet.runner.loop import Runner
    from benchfleet.runner.resources.local_host import LocalHost
    from benchfleet.runner.resources.shapes import Pool
    from benchfleet.runner.result_storage import ResultStorage
    from benchfleet.runner.scheduler.run_request import RunRequest
    from benchfleet.testing.sample_cells import sample_cell
    from simulation.disk import NoFolder
    from simulation.engine import SimulatedEngine
    from simulation.hosts import Nature
    from simulation.process import VirtualEventQueue
    from simulation.turns import Gate, VirtualEvent

    hosts = _hosts(slots, nodes)
    local_pool = None if nodes else Pool(devices=hosts[0].devices, slots=slots)
    parts = Parts()
    turns, began = MeteredTurns(parts), _memory()
    kinds = [sample_cell(n, repeats=True) for n in range(min(cells, KINDS))]
    declared = [replace(kinds[n % KINDS], repeat=n // KINDS) for n in range(cells)]  # parts shared
    inbox = VirtualEventQueue(turns, lambda what: None)
    sent = _QuietEngine(parts, inbox, most, cells - before, slots)

    class Engine(SimulatedEngine):
        def open(self, spec: SlotSpec) -> None:
            sent.memory.setdefault("surveyed", _memory())
            super().open(spec)

    engine = Engine(
        post=inbox.post,
        later=turns.later,
        hosts=hosts,
        natures=_EqualCells(Nature(samples=1, load=LOAD_S, each=SAMPLE_S)),
        chance=random.Random(1),
    )
    ideal = most * (LOAD_S + SAMPLE_S) / slots
    breaker = _NodeLosses(engine, turns.later, hosts, losses, every=ideal / (losses + 1))
    opened = SqliteLedger(work / "ledger.db", campaign="scale", clock=turns.clock)
    with closing(opened) as ledger:
        ledger.enroll(declared)
        _end(ledger, before)
        metered: Any = Metered(ledger, LEDGER, parts)
        runner = Runner(
            RunnerParts(
                RunnerContext(
                    runner=RunnerId("r"),
                    local_host=LocalHost(pool=local_pool),
                    ledger=metered,
                    heartbeat=LeaseHeartbeat(
                        metered,
                        lambda lease: None,
                        lambda error: None,
                        clock=turns.now,
                        ending=VirtualEvent(turns),
                        thread=lambda target, **named: turns.strand(Gate(), target),
                    ),
                    engine=cast(Any, Metered(engine, SIMULATION, parts)),
                    inbox=inbox,
                    layout=Layout(work / "results"),
                    random=lambda: 1.0,
                ),
                RunRequest(cells=declared),
                ResultStorage(folder=NoFolder, publish_all=lambda moves: [None] * len(moves)),
                observer=sent,
            )
        )
        parts.begin()
        began_at = turns.now()
        end = runner.run()
        took, lasted = sent.took(), turns.now() - began_at
        records = list(ledger.cells(states=["success"])) if nodes else []
    if most >= cells and +Counter(end.progress.states) != {"success": cells}:
        raise SystemExit(f"not all of it ended well: {end.progress.states}")
    return {
        "cell": (cell := took[RUNNER] + took[LEDGER]),
        "steps": cell / (bare := took[BARE] * EVERY / STEPS),
        "loop": took[RUNNER],
        "ledger": took[LEDGER],
        "simulation": took[SIMULATION],
        "begin": sent.begin,
        "bare": bare,
        "waiting": (sent.memory["surveyed"] - began) / cells,
        "slot": (sent.memory["busy"] - sent.memory["surveyed"]) / slots,
        "ended": (sent.memory["last"] - sent.memory["from"]) / sent.counted,
        "whole": float(_memory() - began),
        **(breaker.figures(records, sent.done) if nodes else {}),
        **({"lasted": lasted / ideal} if nodes else {}),
    }


def _hosts(slots: int, nodes: int) -> list[Any]:
    """Simulated hosts that have so many slots together: this machine alone where `nodes` is 0."""
    from benchfleet.domain.resource import Device
    from simulation.hosts import SimulatedHost

    hosts = []
    for number in range(nodes or 1):
        name, count = f"node-{number}" if nodes else "", slots // (nodes or 1)
        devices = tuple(Device(kind="cpu", index=index, host=name) for index in range(count))
        hosts.append(SimulatedHost(name=name, devices=devices, slots=count))
    return hosts


class _NodeLosses:
    """Loses a node every so many seconds, and lets it return."""

    def __init__(
        self, engine: Any, later: Any, hosts: list[Any], losses: int, *, every: float
    ) -> None:
        import random

        self._engine, self._later, self._hosts, self._every = engine, later, hosts, every
        self._remaining, self._chance, self.lost = losses, random.Random(2), 0
        if losses:
            later(every, self._lose)

    def _lose(self) -> None:
        if self._engine.over or not self._remaining:
            return
        self._remaining -= 1
        self.lost += 1
        host = self._chance.choice([host for host in self._hosts if host.here])
        self._change(host, reachable=False)
        self._later(RETURNS_IN_S, lambda: self._change(host, reachable=True))
        self._later(self._every, self._lose)

    def _change(self, host: Any, *, reachable: bool) -> None:
        host.set_reachable(reachable)
        self._engine.look_again(host.name)

    def figures(self, records: list[Any], done: int) -> dict[str, float]:
        """What became of the cells, by the ledger's records of those that ended well."""
        return {
            "nodes_lost": self.lost,
            "interrupted": sum(record.attempt - 1 for record in records),
            "charged": sum(max(0, record.tries - 1) for record in records),
            "twice": done - len(records),
        }


class _QuietEngine:
    """Watches a run: from when it knows how long cells take until the last of those that count."""

    def __init__(self, parts: Any, inbox: Any, most: int, remaining: int, slots: int) -> None:
        self._parts, self._inbox, self._most, self._slots = parts, inbox, most, slots
        self._last, self.done, self._begun = min(most, remaining), 0, 0
        # Until every kind of cell was seen some times, what waits is ranked again and again.
        self._from = min(self._last // 2, 8 * KINDS)
        self.counted = self._last - self._from
        self.begin = 0.0
        self.memory: dict[str, int] = {}  # bytes at moments
        self._took: dict[str, float] = {}

    def __call__(self, notice: Any, progress: Any) -> None:
        if notice.kind == "cell_started":
            self._begun += 1
            if self._begun == self._slots:
                self.memory["busy"] = _memory()
        if notice.kind != "cell_done":
            return
        self.done += 1
        if self.done in (1, self._from):
            took = self._parts.end()
            self.begin += took["runner"] + took["ledger"]
            if self.done == self._from:
                self.memory["from"] = _memory()
            self._parts.begin()
        elif self.done < self._last and self.done % EVERY == 0:
            before = self._parts.enter("bare")
            bare_step(STEPS)
            self._parts.enter(before)
        elif self.done == self._last:
            self.memory["last"] = _memory()
            self._took = self._parts.end()
            self._parts.begin()
            if self.done == self._most:
                from benchfleet.runner.events import Interrupted

                self._inbox.post(Interrupted(signal="SIGINT"))

    def took(self) -> dict[str, float]:
        """Seconds of CPU for each of those cells."""
        return {part: took / self.counted for part, took in self._took.items()}


def _end(ledger: Any, count: int) -> None:
    """Have so many cells end well, as if a runner had run them before."""
    from benchfleet.domain.attempt import Outcome, RunnerId
    from benchfleet.testing import claim_any

    while count > 0:
        for claim in (claims := claim_any(ledger, RunnerId("before"), min(count, 1000))):
            seconds = {"load": 1.0, "benchmark": 30.0}
            outcome = Outcome(state="success", digest="d", seconds=seconds, device_type="cpu")
            ledger.finish(claim.lease, outcome)
        count -= len(claims)


class _EqualCells(dict[str, Any]):
    """The same nature for every cell."""

    def __init__(self, nature: Any) -> None:
        super().__init__()
        self._nature = nature

    def __missing__(self, fingerprint: str) -> Any:
        return self._nature


def _memory() -> int:
    """Bytes that this process has in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)
