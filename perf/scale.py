"""How the runner bears size: its time and memory for 1,000 and 10,000 simulated slots and up to
1,000,000 cells, and for 1,000 real pipes to trivial slots on this machine.

The loop, the ledger (SQLite in memory) and the leases are the real ones; simulated slots tell what
real ones tell, and no attempt has a folder, so that what is measured is the runner alone. Each size
runs in a process of its own, and the time is that process's CPU time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from measure import arguments, folder, show

SIZES = ((1_000, 10_000), (1_000, 100_000), (10_000, 100_000), (10_000, 1_000_000))
IN_MEMORY = "/dev/shm"  # noqa: S108 - syncing costs nothing there
PIPES, PIPED_CELLS = 1_000, 10_000
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
        break
"""


def run(slots: int, cells: int, work: Path, engine: Callable[[Any], Any] | None) -> dict[str, Any]:
    """One run; `engine` makes the engine from where it posts, None for simulated slots."""
    from benchfleet.domain.attempt import RunnerId
    from benchfleet.domain.resource import Device
    from benchfleet.ledger.sqlite import SqliteLedger
    from benchfleet.results.layout import Layout
    from benchfleet.runner.inbox import RealInbox
    from benchfleet.runner.leases import LeaseKeeper
    from benchfleet.runner.loop import Runner
    from benchfleet.runner.place import Pool
    from benchfleet.testing.samples import sample_cell
    from benchfleet.testing.simulation.disk import NoFolder
    from benchfleet.testing.simulation.engine import SimulatedEngine
    from benchfleet.testing.simulation.hosts import Nature, SimulatedHost
    from benchfleet.testing.simulation.process import VirtualInbox
    from benchfleet.testing.simulation.turns import Gate, Turns, VirtualEvent

    devices = tuple(Device(kind="cpu", index=number) for number in range(slots))
    turns, began = Turns(), _memory()
    declared = [sample_cell(n % 1000, repeat=n // 1000, repeats=True) for n in range(cells)]
    keeping: dict[str, Any] = {}
    if engine is None:
        import random

        inbox: Any = VirtualInbox(turns, lambda what: None)
        nature = Nature(samples=1, load=1.0, each=30.0)
        chosen: Any = SimulatedEngine(
            post=inbox.post,
            later=turns.later,
            hosts=[SimulatedHost(name="", devices=devices, slots=slots)],
            natures=_Alike(nature),
            chance=random.Random(1),
        )
        keeping = {
            "clock": turns.now,
            "ending": VirtualEvent(turns),
            "thread": lambda target, **named: turns.strand(Gate(), target),
        }
    else:
        inbox = RealInbox()
        chosen = engine(inbox.post)
    clock = turns.clock if engine is None else time.time
    opened = SqliteLedger(work / "ledger.db", campaign="scale", clock=clock)
    with closing(opened) as ledger:
        ledger.enroll(declared)
        seen = _Seen(inbox, slots)
        runner = Runner(
            runner=RunnerId("r"),
            ledger=ledger,
            engine=chosen,
            inbox=inbox,
            layout=Layout(work / "results"),
            pools=[Pool(devices=devices, slots=slots)],
            cells=declared,
            observer=seen,
            keeper=LeaseKeeper(ledger, lambda lease: None, lambda error: None, **keeping),
            provenance=dict,
            random=lambda: 1.0,
            background=lambda work: work(),
            folder=NoFolder,
            publish=lambda folder, public: None,
        )
        enrolled = _memory()
        cpu, wall = time.process_time(), time.perf_counter()
        end = runner.run()
        figures = {
            "slots": slots,
            "cells": cells,
            "cell": (time.process_time() - cpu) / cells,
            "wall": time.perf_counter() - wall,
            "enrolled": (enrolled - began) / cells,
            "memory": (_memory() - began) / cells,
            **seen.figures,
        }
    if +Counter(end.progress.states) != {"success": cells}:
        raise SystemExit(f"not all of it ended well: {end.progress.states}")
    return figures


class _Alike(dict[str, Any]):
    """The same nature for every cell."""

    def __init__(self, nature: Any) -> None:
        super().__init__()
        self._nature = nature

    def __missing__(self, fingerprint: str) -> Any:
        return self._nature


class _Seen:
    """Sees when all slots are open, and what they hold then."""

    def __init__(self, inbox: Any, slots: int) -> None:
        self._slots, self._ready, self._began = slots, 0, time.perf_counter()
        self.figures: dict[str, float] = {}

    def __call__(self, notice: Any, progress: Any) -> None:
        if notice.kind == "slot_ready":
            self._ready += 1
            if self._ready == self._slots:
                self.figures["ready"] = time.perf_counter() - self._began
                self.figures["slot"] = _children() / self._slots


def _memory() -> int:
    """Bytes that this process has in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _children() -> float:
    """Bytes that the processes which it started have for themselves."""
    import psutil

    return float(sum(c.memory_full_info().pss for c in psutil.Process().children()))


def pipes(work: Path) -> Callable[[Any], Any]:
    """The local engine with slots that only speak frames."""
    import benchfleet
    from benchfleet.engines.base import SlotSpec
    from benchfleet.engines.child import Child
    from benchfleet.engines.frames import PROTOCOL
    from benchfleet.engines.local import LocalEngine

    script = work / "trivial.py"
    script.write_text(TRIVIAL)

    class Pipes(LocalEngine):
        def _start(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
            words = [sys.executable, "-I", "-S", str(script), str(PROTOCOL)]
            return Child(spec.slot, [*words, benchfleet.__version__], log=Path(spec.log)), {}

    return lambda post: Pipes(post, silence=600.0)


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
        __doc__ or "", repeats=1, numbers={"slots": None, "cells": None, "real": 0, "most": 10**6}
    )
    if chosen.slots:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if chosen.work is None and os.access(IN_MEMORY, os.W_OK):
            chosen.work = IN_MEMORY
        with folder(chosen) as work:
            engine = pipes(work) if chosen.real else None
            print(json.dumps(run(chosen.slots, chosen.cells, work, engine)))
        return
    figures = {}
    for slots, cells in SIZES:
        if cells <= chosen.most:
            figures[f"{slots:,} slots, {cells:,} cells"] = one(slots, cells, real=False)
    figures[f"{PIPES:,} real pipes, {PIPED_CELLS:,} cells"] = one(PIPES, PIPED_CELLS, real=True)
    columns = {"cell": ("ms of CPU a cell", 1e3), "memory": ("kB a cell", 1e-3)}
    show(figures, columns, against=next(iter(figures)), by="cell", arguments=chosen)
    piped = figures[f"{PIPES:,} real pipes, {PIPED_CELLS:,} cells"]
    print(f"pipes: all ready in {piped['ready']:.1f} s, {piped['slot'] / 1e6:.1f} MB for each slot")


if __name__ == "__main__":
    main()
