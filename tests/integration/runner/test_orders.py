"""What a person may add, what is refused, and who obeys which order, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.resource import Device
from benchfleet.domain.slots import SlotsCommand, device_name
from benchfleet.engines.base import HostLost, HostReady, SlotId, SlotLost
from benchfleet.errors import DeviceError
from benchfleet.runner.events import Interrupted
from benchfleet.runner.resources.local_host import LocalHost
from benchfleet.runner.resources.shapes import Pool
from stage import GPUS, Stage, cells

from .conftest import US, Person, slot_messages

MANY = tuple(Device(kind="gpu", index=i, memory=8 * 10**9) for i in range(4))


@pytest.fixture
def gpus_here(stage: Stage) -> list[Device]:
    """The GPUs of this machine, as its driver has them."""
    there = list(MANY)
    stage.local_host = LocalHost(gpus=lambda: there)
    return there


def test_a_gpu_that_is_here_is_added_with_as_many_slots_as_the_others(
    stage: Stage, person: Person, gpus_here: list[Device]
) -> None:
    person.asks(3, "add", "gpu:3")
    end = stage.run(cells(9, gpus=1), GPUS)
    assert end.progress.states == {"success": 9}
    assert [spec.devices[0].index for spec in stage.engine.opened] == [0, 1, 3]
    assert end.seconds < 40
    (answer,) = person.answers
    assert answer.done == ("gpu:3 is added; it is looked at when a cell is to run there",)
    assert [slot.devices for slot in answer.slots] == ["gpu:0", "gpu:1", "gpu:3"]


def test_what_cannot_be_added_is_refused_with_what_there_is(
    stage: Stage, person: Person, gpus_here: list[Device]
) -> None:
    person.asks(3, "add", "gpu:7", "gpu:1", "lab9/gpu:0", "cpu:0")
    person.asks(4, "drain", "gpu:3")
    stage.run(cells(4, gpus=1), GPUS)
    first, second = person.answers
    assert first.done == ()
    assert first.refused == (
        "no gpu:7 on this machine; there are gpu:0, gpu:1, gpu:2, gpu:3",
        "gpu:1 is part of this run already",
        "lab9/gpu:0: lab9 takes no part in this run; its machines: this one",
        "cpu:0: this machine takes part with its GPUs; a run takes GPUs or slots of the CPU of a "
        "machine, not both",
    )
    assert second.refused == ("no gpu:3 in this run; there are gpu:0, gpu:1",)


def test_a_driver_that_cannot_be_asked_is_an_answer_too(stage: Stage, person: Person) -> None:
    def broken() -> Any:
        raise DeviceError("the GPUs cannot be counted")

    stage.local_host = LocalHost(gpus=broken)
    person.asks(3, "add", "gpu:3")
    stage.run(cells(4, gpus=1), GPUS)
    assert person.answers[0].refused == ("the GPUs cannot be counted",)


def test_asking_twice_changes_nothing(stage: Stage, person: Person) -> None:
    person.asks(3, "drain", "cpu:1")
    person.asks(20, "drain", "cpu:1")
    person.asks(22, "remove", "cpu:1", "cpu:1")
    person.asks(24, "remove", "cpu:1")
    person.asks(26, "add", "cpu:1")
    person.asks(28, "add", "cpu:1")
    end = stage.run(cells(10))
    assert end.progress.states == {"success": 10}
    output = [(*answer.done, *answer.refused) for answer in person.answers]
    assert output[1:] == [
        ("cpu:1 is drained already; no slot is on it",),
        ("cpu:1 is removed; no slot is on it",),
        ("cpu:1 is removed already; no slot is on it",),
        ("cpu:1 is added; it was removed, and is looked at when a cell is to run there",),
        ("cpu:1 is part of this run already",),
    ]


def test_the_signal_file_is_obeyed_once_and_what_is_wrong_in_it_is_reported(
    stage: Stage, person: Person
) -> None:
    file = stage.layout.orders
    text = "# lent to Ada\ndrain cpu:1\n\nadd\nfetch gpu:1\ndrain gpu3\ndrain cpu:9\n"
    person.does(3, lambda: file.write_text(text))
    end = stage.run(cells(6))
    assert end.progress.states == {"success": 6}
    assert not file.exists()
    assert len([text for text in slot_messages(stage) if text.startswith("cpu:1 is drained")]) == 1
    assert stage.warnings() == [
        "slots.txt, line 4: add names no device: write add gpu:3",
        "slots.txt, line 5: invalid action 'fetch': use add, drain, remove",
        "slots.txt, line 6: invalid device 'gpu3': write gpu:3, cpu:0 or lab2/gpu:1",
        "slots.txt, line 7: no cpu:9 in this run; there are cpu:0, cpu:1",
    ]


def test_a_machine_that_comes_back_has_what_was_added_and_lacks_what_was_removed(
    stage: Stage, person: Person
) -> None:
    one, two, three = (Device(kind="cpu", index=i, host="lab2") for i in range(3))
    stage.engine.far = ("lab2",)
    ready = HostReady(host="lab2", devices=(one, two), slots=2, threads=2)
    stage.inbox.post(ready)
    stage.inbox.post(ready, after=40)

    def lose() -> None:
        for name in list(stage.engine.specs):
            del stage.engine.specs[name]
            stage.inbox.post(SlotLost(slot=SlotId(name), reason="gone", host_lost=True))
        stage.inbox.post(HostLost(host="lab2", reason="gone"))

    person.does(30, lose)
    person.asks(3, "remove", "lab2/cpu:0")
    person.asks(4, "add", "lab2/cpu:2")
    person.asks(35, "add", "lab2/cpu:7")
    stage.run(cells(30), Pool(devices=(), slots=0))
    opened = [spec.devices[0] for spec in stage.engine.opened]
    assert opened == [one, two, three, two, three]
    assert {spec.threads for spec in stage.engine.opened} == {2}
    assert person.answers[2].refused == ("lab2/cpu:7: lab2 is away (lab2: gone)",)


def test_a_run_that_ends_obeys_no_more(stage: Stage, person: Person) -> None:
    stage.inbox.post(Interrupted(signal="SIGINT"), after=2.2)
    person.asks(2.3, "drain", "cpu:1")
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    stage.run(cells(2))
    assert person.answers[0].refused == ("cpu:1: this run is ending",)


def test_orders_to_others_and_orders_that_nobody_knows_are_passed_over(
    stage: Stage, person: Person
) -> None:
    order = SlotsCommand(action="drain", devices=(device_name("cpu:0"),))
    person.does(2, lambda: stage.ledger.record(order.event("somebody else")))
    strange = Event(kind="slots_asked", data={"runner": US, "action": "paint", "devices": []})
    person.does(2, lambda: stage.ledger.record(strange))
    stage.run(cells(4))
    assert not person.answers
    assert not slot_messages(stage)


def test_a_runner_tells_the_ledger_that_it_began_and_ended(stage: Stage) -> None:
    stage.run(cells(1))
    output = [e.data["runner"] for e in stage.ledger.events() if e.kind.startswith("runner_")]
    assert output == [US, US]
    json.dumps([dict(e.data) for e in stage.ledger.events()])  # as a ledger on a disk keeps it
    assert LocalHost().gpus() == ()


def test_a_run_reads_what_happened_once_however_often_it_looks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, output = stage.ledger.events, list[int]()

    def events(*asked: Any, **named: Any) -> Sequence[Event]:
        found = real(*asked, **named)
        output.extend(event.seq for event in found)
        return found

    monkeypatch.setattr(stage.ledger, "events", events)
    end = stage.run(cells(12))
    assert end.progress.states == {"success": 12}
    assert sorted(set(output)) == sorted(output)
