"""How the runner bears size: its time and memory for 1,000 and 10,000 simulated slots and up to
1,000,000 cells, and the local engine's for 1,000 real pipes to trivial slots on this machine.

The loop, the ledger (SQLite in memory) and the leases are the real ones; simulated slots tell what
real ones tell, and no attempt has a folder, so that what is measured is the runner alone; what the
simulation itself takes is told apart, and not counted. A trivial slot is a bare interpreter that
speaks frames. Each size runs in a process of its own, and the time is that process's CPU time.
What a run takes until it knows how long each kind of cell takes is told apart, since all that waits
is ranked for that, once. Large runs end after some 30,000 cells (`RUN`; `--run N`, and `--ended N`
has the runner come upon so many that ended before). Where others use the machine CPU time is worth
less: so the same process runs a piece of a bare loop after every hundredth cell, and the time of a
cell is told in steps of it too. Compare rows whose steps took alike: what fits into a cache gains
more by a quiet hour than what does not.

Memory is what the process has, in parts: of a cell that is declared, enrolled and waits; of a slot
that is open and has a cell at hand; and what stays of a cell that ended.

All of it takes an hour. In parts: `--slots 1000 --cells 100000 --json FILE` (or `--real 1` for the
pipes) measures one size, adds it to what the file has of others, and prints the table of all.
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

from measure import added, arguments, folder

SIZES = tuple((slots, cells) for slots in (1_000, 10_000) for cells in (10_000, 100_000, 10**6))
RUN = 30_000  # cells after which a large run ends, and as many more as there are slots
IN_MEMORY = "/dev/shm"  # noqa: S108 - syncing costs nothing there
KINDS = 1000  # of cells, that differ in more than their repeat
PIPES, PIPED_CELLS = 1_000, 10_000
EVERY, STEPS = 100, 10_000  # cells between two pieces of the bare loop, and steps in each
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

    from parts import BARE, LEDGER, RUNNER, SIMULATION, Metered, MeteredTurns, Parts

    from benchfleet.domain.attempt import RunnerId
    from benchfleet.domain.resource import Device
    from benchfleet.engines.base import SlotSpec
    from benchfleet.ledger.sqlite.ledger import SqliteLedger
    from benchfleet.results.layout import Layout
    from benchfleet.runner.devices.here import Here
    from benchfleet.runner.disk import Disk
    from benchfleet.runner.loop import Runner
    from benchfleet.runner.means import Means
    from benchfleet.runner.parts import Parts as RunnerParts
    from benchfleet.runner.slots.place import Pool
    from benchfleet.runner.trying.leases import LeaseKeeper
    from benchfleet.runner.waiting.agenda import Agenda
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
    told = _Told(parts, inbox, most, cells - before, slots)

    class Engine(SimulatedEngine):
        def open(self, spec: SlotSpec) -> None:
            told.memory.setdefault("surveyed", _memory())
            super().open(spec)

    engine = Engine(
        post=inbox.post,
        later=turns.later,
        hosts=[SimulatedHost(name="", devices=devices, slots=slots)],
        natures=_Alike(Nature(samples=1, load=1.0, each=30.0)),
        chance=random.Random(1),
    )
    opened = SqliteLedger(work / "ledger.db", campaign="scale", clock=turns.clock)
    with closing(opened) as ledger:
        ledger.enroll(declared)
        _end(ledger, before)
        metered: Any = Metered(ledger, LEDGER, parts)
        runner = Runner(
            RunnerParts(
                Means(
                    runner=RunnerId("r"),
                    here=Here(pool=Pool(devices=devices, slots=slots)),
                    ledger=metered,
                    keeper=LeaseKeeper(
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
                Agenda(cells=declared),
                Disk(folder=NoFolder, publish_all=lambda moves: [None] * len(moves)),
                observer=told,
            )
        )
        parts.begin()
        end = runner.run()
        took = told.took()
    if most >= cells and +Counter(end.progress.states) != {"success": cells}:
        raise SystemExit(f"not all of it ended well: {end.progress.states}")
    return {
        "cell": (cell := took[RUNNER] + took[LEDGER]),
        "steps": cell / (bare := took[BARE] * EVERY / STEPS),
        "loop": took[RUNNER],
        "ledger": took[LEDGER],
        "simulation": took[SIMULATION],
        "begin": told.begin,
        "bare": bare,
        "waiting": (told.memory["surveyed"] - began) / cells,
        "slot": (told.memory["busy"] - told.memory["surveyed"]) / slots,
        "ended": (told.memory["last"] - told.memory["from"]) / told.counted,
        "whole": float(_memory() - began),
    }


class _Told:
    """Watches a run: from when it knows how long cells take until the last of those that count."""

    def __init__(self, parts: Any, inbox: Any, most: int, left: int, slots: int) -> None:
        self._parts, self._inbox, self._most, self._slots = parts, inbox, most, slots
        self._last, self._done, self._begun = min(most, left), 0, 0
        # Until every kind of cell was seen some times, what waits is ranked anew again and again.
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
        self._done += 1
        if self._done in (1, self._from):
            took = self._parts.end()
            self.begin += took["runner"] + took["ledger"]
            if self._done == self._from:
                self.memory["from"] = _memory()
            self._parts.begin()
        elif self._done < self._last and self._done % EVERY == 0:
            before = self._parts.enter("bare")
            _bare(STEPS)
            self._parts.enter(before)
        elif self._done == self._last:
            self.memory["last"] = _memory()
            self._took = self._parts.end()
            self._parts.begin()
            if self._done == self._most:
                from benchfleet.runner.inbox import Interrupted

                self._inbox.post(Interrupted(signal="SIGINT"))

    def took(self) -> dict[str, float]:
        """Seconds of CPU for each of those cells."""
        return {part: took / self.counted for part, took in self._took.items()}


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


def _bare(steps: int = 1_000_000) -> float:
    """Seconds of CPU for one step of a bare loop."""
    kept = dict[int, int]()
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
    return {**figures, "shutdown": time.perf_counter() - began}


def one(slots: int, cells: int, *, ended: int, run: int, real: bool) -> Mapping[str, float]:
    """The figures of one size, from a process of its own."""
    asked = {"slots": slots, "cells": cells, "ended": ended, "run": run, "real": int(real)}
    words = [word for name, number in asked.items() for word in (f"--{name}", str(number))]
    done = subprocess.run(
        [sys.executable, __file__, *words, "--inside", "1"], stdout=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    found: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    chosen = arguments(
        __doc__ or "", repeats=1,
        numbers={
            "slots": None, "cells": None, "real": 0, "most": 10**6, "ended": 0, "run": None,
            "inside": 0,
        },
    )  # fmt: skip
    if chosen.inside:
        _inside(chosen)
        return
    sizes = [(chosen.slots, chosen.cells)] if chosen.slots and chosen.cells else SIZES
    found = {}
    for slots, cells in () if chosen.real else sizes:
        if cells > chosen.most:
            continue
        run = chosen.run or (cells if cells <= RUN + slots else RUN + slots)
        name = f"{slots:,} slots, {cells:,} cells"
        name += f", of which {chosen.ended:,} ended before" if chosen.ended else ""
        name += f", {run:,} run" if run < cells else ""
        found[name] = one(slots, cells, ended=chosen.ended, run=run, real=False)
        added(found, chosen.json)  # if it is cut
    if chosen.real or not chosen.slots:
        slots, orders = chosen.slots or PIPES, chosen.cells or PIPED_CELLS
        name = f"{slots:,} real pipes, {orders:,} orders"
        found[name] = one(slots, orders, ended=0, run=orders, real=True)
    _tell(added(found, chosen.json))


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
            print(json.dumps(simulated(*size, before=chosen.ended, most=chosen.run)))


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
        shown = (f"{row.get(figure, 0) * factor:.2f}" for figure, (_, factor) in columns.items())
        print(f"| {name} | {' | '.join(shown)} |")
    for name, row in figures.items():
        if "shutdown" in row:
            print(
                f"{name}: ready in {row['ready']:.1f} s, {row['slot'] / 1e6:.1f} MB a slot, "
                f"{row['cell'] * 1e3:.2f} ms of CPU for an order (a bare step: "
                f"{row['bare'] * 1e9:.0f} ns), all ended in {row['shutdown']:.1f} s"
            )


if __name__ == "__main__":
    main()
