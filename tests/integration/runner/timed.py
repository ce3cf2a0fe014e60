"""Cells that take so long, GPUs for them, and what ended before a run, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, Done, SlotEvent, SlotId, Started
from benchfleet.runner.resources.shapes import Pool
from stage import Stage, good, sample

GB = 10**9
SCORE = {"overall": 1.0, "per_sample": [1.0, 1.0], "tasks": {}, "summary": {}}
Script = Callable[[SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]


def gpus(count: int, *, memory: int = 24, slots: int = 0, host: str = "") -> Pool:
    devices = [Device(kind="gpu", index=n, memory=memory * GB, host=host) for n in range(count)]
    return Pool(devices=tuple(devices), slots=slots or count)


def lasting(seconds: Mapping[str, float], load: float | Mapping[str, float] = 0.0) -> Script:
    """Cells last as long as their benchmark (or else model) says; a slot loads a model once, and
    those that have a time to load of their own say when they are loaded."""
    loaded: dict[str, str] = {}

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        cell = request.cell
        own = load[cell.model.name] if isinstance(load, Mapping) else load
        loads = own if loaded.get(slot) != cell.model.name else 0.0
        loaded[slot] = cell.model.name
        takes = seconds.get(cell.workload.name, seconds.get(cell.model.name, 10.0))
        spent = {"load": loads, "benchmark": takes}
        done = Done(slot=slot, attempt=request.attempt, score=SCORE, seconds=spent)
        return [
            (
                loads if isinstance(load, Mapping) else 0,
                Started(slot=slot, attempt=request.attempt, stage="benchmark"),
            ),
            *[
                (loads + takes, sample(request, slot, n))
                for n in range(request.recorded.count(b"\n"), 2)
            ],
            (loads + takes, done),
        ]

    return script


def ended_before(
    stage: Stage, known: Sequence[Cell], seconds: Mapping[str, float], load: float = 0.0
) -> None:
    """What an earlier run leaves: as many cells that ended, of the same times."""
    stage.ledger.enroll(known)
    names = [cell.fingerprint for cell in known]
    for claim in stage.ledger.claim(RunnerId("before"), names, len(known)):
        takes = seconds.get(claim.cell.workload.name, 10.0)
        stage.ledger.finish(
            claim.lease,
            Outcome(state="success", digest="d", seconds={"load": load, "benchmark": takes}),
        )


def ran(stage: Stage) -> list[str]:
    """The cells in the order in which they began: benchmark, or model and benchmark."""
    return [cell.rpartition("/")[2] for _, cell in stage.engine.requests]


def taking(*seconds: float) -> Callable[[SlotId, AttemptRequest], list[tuple[float, SlotEvent]]]:
    """Cells that take so long, one after the other; the last of these holds for all others."""
    left = list(seconds)

    def script(slot: SlotId, request: AttemptRequest) -> list[tuple[float, SlotEvent]]:
        took = left.pop(0) if len(left) > 1 else left[0]
        return [(took * (after > 0), event) for after, event in good(slot, request)]

    return script
