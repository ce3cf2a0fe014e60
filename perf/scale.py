"""How the runner bears size: its time and memory for 1,000 and 10,000 simulated slots and up to
1,000,000 cells, and the local engine's for 1,000 real pipes to trivial slots on this machine.

The loop, the ledger (SQLite in memory) and the leases are the real ones; simulated slots tell what
real ones tell, and no attempt has a folder, so that what is measured is the runner alone; what the
simulation itself takes is told apart, and not counted. A trivial slot is a bare interpreter that
speaks frames. Each size runs in a process of its own, and the time is that process's CPU time;
`--slots` and `--cells` measure one size, `--most` is the most cells. Where a million cells take too
long, `--ended N` has the runner come upon so many that ended before, and `--run N` ends it after so
many more. What a run takes until it knows how long each kind of cell takes is told apart, since it
looks at all that waits for that.
Where others use the machine CPU time is worth less: so the same process times a bare loop just
before and after, and says what one of its steps took.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from measure import arguments, folder, show

SIZES = ((1_000, 10_000), (1_000, 100_000), (10_000, 100_000), (10_000, 1_000_000))
IN_MEMORY = "/dev/shm"  # noqa: S108 - syncing costs nothing there
KINDS = 1000  # of cells, that differ in more than their repeat
PIPES, PIPED_CELLS = 1_000, 10_000
SIMULATED = (
    "loop",
    "ledger",
    "simulation",
    "begin",
    "enrolled",
    "memory",
)  # figures that pipes have not
PIPED = f"{PIPES:,} real pipes, {PIPED_CELLS:,} orders"
TRIVIAL = """\
import json, struct, sys, zlib
read, write = sys.stdin.buffer, sys.stdout.buffer
prefix = struct.Struct(">II")
def say(type, **fields):
    text = json.dumps({"type": type, **fields}).encode()
    write.write(prefix.pack(len(text), zlib.crc32(text)) + text)
    write.flush()
while head := read.read(8):
    frame = json.loads(read.read(prefix.unpack(head)[0]))
    if frame["type"] == "open":
        say("hello", slot=frame["slot"], protocol=int(sys.argv[1]), version=sys.argv[2], pid=0)
    elif frame["type"] == "run":
        attempt = frame["attempt"]
        say("started", attempt=attempt, stage="benchmark")
        score = {"overall": 1.0, "per_sample": [], "tasks": {}, "summary": {}}
        say("done", attempt=attempt, score=score, seconds={}, provenance={})
    elif frame["type"] == "ping":
        say("ping")
    elif frame["type"] == "close":
        sys.stderr.write("\\0no supervisor alone\\0")
        break
"""


def simulated(slots: int, cells: int, work: Path, *, before: int, most: int) -> dict[str, Any]:
    """One run on simulated slots, of which `before` cells have ended, until `most` more have."""
    import random

    from parts import LEDGER, RUNNER, SIMULATION, Metered, MeteredTurns, Parts

    from benchfleet.domain.attempt import RunnerId
    from benchfleet.domain.resource import Device
    from benchfleet.ledger.sqlite import SqliteLedger
    from benchfleet.results.layout import Layout
    from benchfleet.runner.leases import LeaseKeeper
    from benchfleet.runner.loop import Runner
    from benchfleet.runner.place import Pool
    from benchfleet.testing.samples import sample_cell
    from benchfleet.testing.simulation.disk import NoFolder
    from benchfleet.testing.simulation.engine import SimulatedEngine
    from benchfleet.testing.simulation.hosts import Nature, SimulatedHost
    from benchfleet.testing.simulation.process import VirtualInbox
    from benchfleet.testing.simulation.turns import Gate, VirtualEvent

    devices = tuple(Device(kind="cpu", index=number) for number in range(slots))
    parts = Parts()
    turns, began = MeteredTurns(parts), _memory()
    kinds = [sample_cell(n, repeats=True) for n in range(min(cells, KINDS))]
    declared = [replace(kinds[n % KINDS], repeat=n // KINDS) for n in range(cells)]  # parts shared
    inbox = VirtualInbox(turns, lambda what: None)
    engine = SimulatedEngine(
        post=inbox.post,
        later=turns.later,
        hosts=[SimulatedHost(name="", devices=devices, slots=slots)],
        natures=_Alike(Nature(samples=1, load=1.0, each=30.0)),
        chance=random.Random(1),
    )
    opened = SqliteLedger(work / "ledger.db", campaign="scale", clock=turns.clock)
    told = _Told(parts, inbox, most, cells - before)
    with closing(opened) as ledger:
        ledger.enroll(declared)
        _end(ledger, before)
        metered: Any = Metered(ledger, LEDGER, parts)
        runner = Runner(
            runner=RunnerId("r"),
            ledger=metered,
            engine=cast(Any, Metered(engine, SIMULATION, parts)),
            inbox=inbox,
            layout=Layout(work / "results"),
            pools=[Pool(devices=devices, slots=slots)],
            cells=declared,
            observer=told,
            keeper=LeaseKeeper(
                metered,
                lambda lease: None,
                lambda error: None,
                clock=turns.now,
                ending=VirtualEvent(turns),
                thread=lambda target, **named: turns.strand(Gate(), target),
            ),
            provenance=dict,
            random=lambda: 1.0,
            background=lambda work: work(),
            folder=NoFolder,
            publish=lambda folder, public: None,
        )
        enrolled = _memory()
        bare = _bare()
        parts.begin()
        end = runner.run()
        took = told.took()
        bare = (bare + _bare()) / 2
    if most >= cells and +Counter(end.progress.states) != {"success": cells}:
        raise SystemExit(f"not all of it ended well: {end.progress.states}")
    return {
        "cell": took[RUNNER] + took[LEDGER],
        "loop": took[RUNNER],
        "ledger": took[LEDGER],
        "simulation": took[SIMULATION],
        "begin": told.begin,
        "bare": bare,
        "enrolled": (enrolled - began) / cells,
        "memory": (_memory() - began) / cells,
    }


class _Told:
    """Watches a run: from when it knows how long cells take until the last of those that count."""

    def __init__(self, parts: Any, inbox: Any, most: int, left: int) -> None:
        self._parts, self._inbox, self._most = parts, inbox, most
        self._last, self._done = min(most, left), 0
        # Until every kind of cell was seen some times, what waits is ranked anew again and again.
        self._from = min(self._last // 2, 8 * KINDS)
        self.begin = 0.0
        self._took: dict[str, float] = {}

    def __call__(self, notice: Any, progress: Any) -> None:
        if notice.kind != "cell_done":
            return
        self._done += 1
        if self._done in (1, self._from):
            took = self._parts.end()
            self.begin += sum(seconds for part, seconds in took.items() if part != "simulation")
            self._parts.begin()
        elif self._done == self._last:
            self._took = self._parts.end()
            self._parts.begin()
            if self._done == self._most:
                from benchfleet.runner.inbox import Interrupted

                self._inbox.post(Interrupted(signal="SIGINT"))

    def took(self) -> dict[str, float]:
        """Seconds of CPU for each of those cells."""
        return {part: took / (self._last - self._from) for part, took in self._took.items()}


def _end(ledger: Any, count: int) -> None:
    """Have so many cells end well, as if a runner had run them before."""
    from benchfleet.domain.attempt import Outcome, RunnerId
    from benchfleet.domain.resource import Offer

    while count > 0:
        for claim in (claims := ledger.claim(RunnerId("before"), Offer(), min(count, 1000))):
            seconds = {"load": 1.0, "benchmark": 30.0}
            outcome = Outcome(state="success", digest="d", seconds=seconds, device_type="cpu")
            ledger.finish(claim.lease, outcome)
        count -= len(claims)


class _Alike(dict[str, Any]):
    """The same nature for every cell."""

    def __init__(self, nature: Any) -> None:
        super().__init__()
        self._nature = nature

    def __missing__(self, fingerprint: str) -> Any:
        return self._nature


def _bare() -> float:
    """Seconds of CPU for one step of a bare loop."""
    steps, kept = 1_000_000, dict[int, int]()
    began = time.process_time()
    for step in range(steps):
        kept[step & 1023] = step
    return (time.process_time() - began) / steps


def _memory() -> int:
    """Bytes that this process has in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _children() -> float:
    """Bytes that the processes which it started have for themselves."""
    import psutil

    return float(sum(c.memory_full_info().pss for c in psutil.Process().children()))


def piped(slots: int, orders: int, work: Path) -> dict[str, Any]:
    """The local engine alone, with slots that only speak frames."""
    import benchfleet
    from benchfleet.domain.resource import Device
    from benchfleet.engines.base import Done, Order, SlotId, SlotReady, SlotSpec
    from benchfleet.engines.child import Child
    from benchfleet.engines.frames import PROTOCOL
    from benchfleet.engines.local import LocalEngine
    from benchfleet.runner.inbox import RealInbox
    from benchfleet.testing.samples import sample_cell

    script, cell, log = work / "trivial.py", sample_cell(), str(work / "log")
    script.write_text(TRIVIAL)
    words = [sys.executable, "-I", "-S", str(script), str(PROTOCOL), benchfleet.__version__]

    class Pipes(LocalEngine):
        def _start(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
            return Child(spec.slot, words, log=Path(spec.log), key="no supervisor"), {}

    inbox, began = RealInbox(), time.perf_counter()
    engine, given, done, ready = Pipes(inbox.post, silence=600.0), 0, 0, list[SlotId]()
    for number in range(slots):
        device = Device(kind="cpu", index=number)
        log = str(work / "slots" / f"{number}.log")
        engine.open(SlotSpec(slot=SlotId(f"s{number}"), devices=(device,), threads=1, log=log))
    while len(ready) < slots:
        if isinstance(event := inbox.take(60.0), SlotReady):
            ready.append(event.slot)
    figures = {"ready": time.perf_counter() - began, "slot": _children() / slots}
    cpu = time.process_time()
    free = list(ready)
    while done < orders:
        while free and given < orders:
            given += 1
            engine.run(free.pop(), Order(attempt=f"cell/{given}-1", cell=cell, log=log))
        if isinstance(event := inbox.take(60.0), Done):
            done += 1
            free.append(event.slot)
    figures["cell"] = (time.process_time() - cpu) / orders
    figures["bare"] = _bare()
    began = time.perf_counter()
    engine.shutdown()
    return {**figures, "shutdown": time.perf_counter() - began, **dict.fromkeys(SIMULATED, 0.0)}


def one(slots: int, cells: int, *, real: bool) -> Mapping[str, float]:
    """The figures of one size, from a process of its own."""
    words = [sys.executable, __file__, "--slots", str(slots), "--cells", str(cells)]
    done = subprocess.run([*words, *(["--real", "1"] if real else [])], stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    found: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    chosen = arguments(
        __doc__ or "", repeats=1,
        numbers={
            "slots": None, "cells": None, "real": 0, "most": 10**6, "ended": 0, "run": 10**9
        },
    )  # fmt: skip
    if chosen.slots:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if chosen.work is None and os.access(IN_MEMORY, os.W_OK):
            chosen.work = IN_MEMORY
        with folder(chosen) as work:
            size = chosen.slots, chosen.cells, work
            if chosen.real:
                print(json.dumps(piped(*size)))
            else:
                print(json.dumps(simulated(*size, before=chosen.ended, most=chosen.run)))
        return
    figures = {}
    for slots, cells in SIZES:
        if cells <= chosen.most:
            figures[f"{slots:,} slots, {cells:,} cells"] = one(slots, cells, real=False)
    figures[PIPED] = one(PIPES, PIPED_CELLS, real=True)
    columns = {
        "cell": ("ms of CPU a cell", 1e3),
        "loop": ("of these, the loop", 1e3),
        "ledger": ("its ledger", 1e3),
        "simulation": ("and the simulation, not counted", 1e3),
        "begin": ("s before these", 1.0),
        "bare": ("ns a step of a bare loop", 1e9),
        "enrolled": ("kB a cell, declared and enrolled", 1e-3),
        "memory": ("kB a cell, at the end", 1e-3),
    }
    show(figures, columns, against=next(iter(figures)), by="cell", arguments=chosen)
    real = figures[PIPED]
    ended = f"all ended in {real['shutdown']:.1f} s"
    print(f"pipes: ready in {real['ready']:.1f} s, {real['slot'] / 1e6:.1f} MB a slot, {ended}")


if __name__ == "__main__":
    main()
