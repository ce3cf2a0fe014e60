"""The local engine with real pipes to slots that only speak frames, on this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from measure import bare_step

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


def _children() -> float:
    """Bytes that the processes which it started have for themselves."""
    import psutil

    return float(sum(c.memory_full_info().pss for c in psutil.Process().children()))


def piped(slots: int, orders: int, work: Path) -> dict[str, Any]:
    """The local engine alone, with slots that only speak frames."""
    import benchfleet
    from benchfleet.domain.resource import Device
    from benchfleet.engines.base import AttemptRequest, Done, SlotId, SlotReady, SlotSpec
    from benchfleet.engines.child import Child, create_log
    from benchfleet.engines.frames import PROTOCOL
    from benchfleet.engines.local import LocalEngine
    from benchfleet.engines.slot_process import LocalProcess
    from benchfleet.runner.events import EventQueue
    from benchfleet.testing.sample_cells import sample_cell

    script, cell, log = work / "trivial.py", sample_cell(), str(work / "log")
    script.write_text(TRIVIAL)
    words = [sys.executable, "-I", "-S", str(script), str(PROTOCOL), benchfleet.__version__]

    class Pipes(LocalEngine):
        def _spawn(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
            create_log(log := Path(spec.log))
            process = LocalProcess(spec.slot, words)
            return Child(spec.slot, process, log=log, key="no supervisor"), {}

    inbox, began = EventQueue(), time.perf_counter()
    engine, sent, done, ready = Pipes(inbox.post, silence=600.0), 0, 0, list[SlotId]()
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
        while free and sent < orders:
            sent += 1
            engine.run(free.pop(), AttemptRequest(attempt=f"cell/{sent}-1", cell=cell, log=log))
        if isinstance(event := inbox.take(60.0), Done):
            done += 1
            free.append(event.slot)
    figures["cell"] = (time.process_time() - cpu) / orders
    figures["bare"] = bare_step()
    began = time.perf_counter()
    engine.shutdown()
    return {**figures, "shutdown": time.perf_counter() - began}
