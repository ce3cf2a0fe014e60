"""Hosts and plans of a run in virtual time, and which cells each host was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.placement import Placement
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, Done, HostReady, SlotEvent, SlotId, SlotLost
from benchfleet.runner.resources.shapes import Pool
from stage import Stage, good

Script = Callable[[SlotId, AttemptRequest], Sequence[tuple[float, SlotEvent]]]
NOWHERE = Pool(devices=(), slots=0)


def host_ready(name: str, slots: int = 1, *, gpus: int = 0, model: str = "") -> HostReady:
    """A host whose slots are of its CPU, or on so many GPUs of this make."""
    devices = [
        Device(kind="gpu", index=i, memory=8 * 10**9, host=name, name=model) for i in range(gpus)
    ]
    devices = devices or [Device(kind="cpu", index=i, host=name) for i in range(slots)]
    return HostReady(host=name, devices=tuple(devices), slots=slots, threads=1)


def lost_with(slot: SlotId, *, reason: str = "its connection broke") -> SlotLost:
    """A slot that is lost with the connection to its host."""
    return SlotLost(slot=slot, reason=reason, host_lost=True)


def planned(**given: Sequence[Cell]) -> Placement:
    """A plan alone."""
    return Placement(
        planned_hosts={str(cell.fingerprint): h for h, own in given.items() for cell in own}
    )


def ran(stage: Stage) -> dict[str, list[str]]:
    """The cells that each host was given, in their order, by their ids."""
    hosts = {spec.slot: spec.host for spec in stage.engine.opened}
    found: dict[str, list[str]] = {}
    for slot, cell in stage.engine.requests:
        found.setdefault(hosts[SlotId(slot)], []).append(cell)
    return found


def host_of(stage: Stage, slot: str) -> str:
    return next(spec.host for spec in stage.engine.opened if spec.slot == slot)


def takes(stage: Stage, seconds: Mapping[str, float], load: float = 0.0) -> Script:
    """Cells that take so long, by the host; and their model to load, in each slot once."""
    loaded: set[SlotId] = set()

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        took, wait = seconds[host_of(stage, slot)], 0.0 if slot in loaded else load
        loaded.add(slot)
        *others, (_, done) = good(slot, request)
        assert isinstance(done, Done)
        times = {"load": wait, "benchmark": took} if wait else {"benchmark": took}
        events = [(wait + at * took / 10, event) for at, event in others]
        return [*events, (wait + took, replace(done, seconds=times))]

    return script


def of_two(stage: Stage, *, slots: int = 1, gpus: int = 0) -> None:
    """Two hosts that are there at once."""
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", slots, gpus=gpus))
    stage.inbox.post(host_ready("lab2", slots, gpus=gpus))
