"""Slots that try a model before they are ready, around a scripted engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from benchfleet.domain.cell import Cell
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import (
    AttemptRequest,
    Done,
    EngineEvent,
    Failed,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Started,
)
from benchfleet.engines.preload_check import PreloadCheckEngine
from benchfleet.testing.sample_cells import sample_cell

SLOT = SlotId("run-1")
CPU = (Device(kind="cpu", index=0),)
GPU = Device(kind="gpu", index=0, memory=8 * 10**9)


class Inside:
    """Slots that start at once, and wait for what the test says of their orders."""

    def __init__(self, engine: PreloadCheckEngine) -> None:
        self.engine = engine
        self.requests: list[AttemptRequest] = []
        self.closed: list[str] = []
        self.killed = threading.Event()

    def open(self, spec: SlotSpec) -> None:
        self.engine.handle(SlotReady(slot=spec.slot, hello={"pid": 1}))

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self.requests.append(request)

    def stop(self, slot: SlotId, attempt: str) -> None: ...

    def close(self, slot: SlotId) -> None:
        self.closed.append(slot)

    def kill(self, slot: SlotId) -> None:
        self.engine.handle(SlotLost(slot=slot, reason="killed", expected=True))
        self.killed.set()

    def shutdown(self) -> None: ...

    def slots(self) -> Sequence[SlotId]:
        return []

    def expect(self, waiting: Mapping[Need, int]) -> None: ...

    def hosts(self) -> Sequence[str]:
        return []


class Tried:
    """A `PreloadCheckEngine` with what it posted, and its slots' next words."""

    def __init__(self, *cells: Cell, limit: float = 3600) -> None:
        self.events: list[EngineEvent] = []
        self.engine = PreloadCheckEngine(self.events.append, cells, limit=limit)
        self.inside = self.engine.inside = Inside(self.engine)

    def open(self, devices: tuple[Device, ...] = CPU, *, slot: SlotId = SLOT) -> None:
        self.engine.open(SlotSpec(slot=slot, devices=devices, threads=1, log="slot.log"))

    def passes(self, slot: SlotId = SLOT) -> None:
        self.engine.handle(Started(slot=slot, attempt="trial", stage="load"))
        self.engine.handle(Done(slot=slot, attempt="trial", score={}))

    def fails(self) -> None:
        failure = Failure(stage="load", kind="model_not_found", message="no weights in it")
        self.engine.handle(Failed(slot=SLOT, attempt="trial", failure=failure))


def test_a_slot_is_ready_once_its_model_answered_and_keeps_it_loaded() -> None:
    cell = sample_cell(0)
    tried = Tried(cell)
    tried.open()
    assert tried.events == []
    (request,) = tried.inside.requests
    assert (request.trial, request.cell, request.log) == (True, cell, "slot.log")
    tried.passes()
    ready = SlotReady(slot=SLOT, hello={"pid": 1}, loaded=cell.model.load_key)
    assert tried.events == [ready]


def test_a_trial_that_fails_is_reported_with_model_stage_and_reason() -> None:
    tried = Tried(sample_cell(0))
    tried.open()
    tried.fails()
    (lost,) = tried.events
    assert isinstance(lost, SlotLost)
    assert not lost.expected
    assert "does not run there (load: model_not_found: no weights in it)" in lost.trial
    assert lost.reason == f"its trial failed: {lost.trial}"


@pytest.mark.parametrize(
    ("lost", "trial"),
    [
        (SlotLost(slot=SLOT, reason="signal 11"), True),
        (SlotLost(slot=SLOT, reason="it closed", expected=True), False),
        (SlotLost(slot=SLOT, reason="no route", host_lost=True), False),
    ],
)
def test_a_slot_that_is_lost_in_its_trial_failed_it_where_nobody_else_ended_it(
    lost: SlotLost, trial: bool
) -> None:
    tried = Tried(sample_cell(0))
    tried.open()
    tried.engine.handle(lost)
    (output,) = tried.events
    assert isinstance(output, SlotLost)
    assert bool(output.trial) is trial
    assert (output == lost) is not trial


def test_a_trial_that_does_not_end_has_failed() -> None:
    tried = Tried(sample_cell(0), limit=0.01)
    tried.open()
    assert tried.inside.killed.wait(60)
    (lost,) = tried.events
    assert isinstance(lost, SlotLost)
    assert "load: nothing came within 0.01 s" in lost.trial


def test_devices_are_tried_once() -> None:
    tried = Tried(sample_cell(0))
    tried.open()
    tried.passes()
    tried.open(slot=SlotId("run-2"))
    assert len(tried.inside.requests) == 1
    assert tried.events[-1] == SlotReady(slot=SlotId("run-2"), hello={"pid": 1})


def test_nobody_waits_for_the_trial_of_a_slot_that_is_closed() -> None:
    tried = Tried(sample_cell(0))
    tried.open()
    tried.engine.close(SLOT)
    assert tried.inside.killed.is_set()
    tried.open()
    tried.passes()
    tried.engine.close(SLOT)
    assert tried.inside.closed == [SLOT]


@pytest.mark.parametrize(
    ("devices", "chosen"), [(CPU, 0), ((GPU,), 0), ((GPU, replace(GPU, index=1)), 1)]
)
def test_the_first_cell_that_could_run_there_is_tried(
    devices: tuple[Device, ...], chosen: int
) -> None:
    found = [
        sample_cell(0),
        sample_cell(1, gpus=2),
        sample_cell(2, gpus=1, vram=80 * 10**9),
    ]
    tried = Tried(found[2], *found[:2])
    tried.open(devices)
    assert tried.inside.requests[0].cell == found[chosen]


def test_orders_and_their_events_pass_through() -> None:
    tried = Tried()
    tried.open()
    request = AttemptRequest(attempt="f/1-1", cell=sample_cell(0), log="")
    tried.engine.run(SLOT, request)
    done = Done(slot=SLOT, attempt="f/1-1", score={})
    tried.engine.handle(done)
    assert tried.inside.requests == [request]
    assert tried.events[-1] == done
