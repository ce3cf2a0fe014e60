"""Devices that a person drains or removes while a run goes on, and adds again, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchfleet.domain.humanize import examples
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostReady, Started
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.worker_options import STOP_GRACE_S
from stage import GPUS, Stage, cells, good

from .conftest import Person, slot_messages


def slots_over_time(stage: Stage) -> Callable[[], list[tuple[float, set[str]]]]:
    """Follows which devices have a slot."""
    seen: list[tuple[float, set[str]]] = []
    real = stage.watch

    def watch(notice: Any, progress: Any) -> None:
        real(notice, progress)
        taken = {d.label for s in stage.engine.specs.values() for d in s.devices}
        seen.append((stage.clock() - stage.inbox.began, taken))

    stage.watch = watch  # type: ignore[method-assign]
    return lambda: seen


def test_a_drained_device_finishes_its_cell_and_gets_no_other(stage: Stage, person: Person) -> None:
    seen = slots_over_time(stage)
    person.asks(3, "drain", "cpu:1")
    end = stage.run(cells(6))
    assert end.progress.states == {"success": 6}
    assert not stage.notices_of("cell_released")
    assert [taken for at, taken in seen() if 12 < at < 45] != []
    assert all(taken == {"cpu:0"} for at, taken in seen() if 12 < at < 45)
    assert slot_messages(stage)[0].startswith("cpu:1 is drained; it is free when ")
    assert slot_messages(stage)[1] == "cpu:1 is free: no slot is on it any more"
    (answer,) = person.answers
    assert not answer.refused
    assert [slot.state for slot in answer.slots] == ["load", "load, then let go"] or [
        slot.state for slot in answer.slots
    ] == ["benchmark", "benchmark, then let go"]


def test_draining_now_gives_the_cell_back_with_its_samples(stage: Stage, person: Person) -> None:
    person.asks(5, "drain", "cpu:1", now=True)
    end = stage.run(cells(4, tries=1))
    assert end.progress.states == {"success": 4}
    (released,) = stage.notices_of("cell_released")
    assert released.data["samples"] == 1
    assert "after the sample at hand" in slot_messages(stage)[0]


def test_a_cell_that_does_not_stop_is_ended_and_goes_on_elsewhere(
    stage: Stage, person: Person
) -> None:
    first: list[str] = []

    def hangs_once(slot: Any, order: Any) -> Any:
        if not first:
            first.append(slot)
        if slot == first[0]:
            return [(0, Started(slot=slot, attempt=order.attempt, stage="benchmark"))]
        return good(slot, order)

    stage.engine.script = hangs_once
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    person.asks(5, "drain", "cpu:0", now=True)
    end = stage.run(cells(3))
    assert end.progress.states == {"success": 3}
    (released,) = stage.notices_of("cell_released")
    assert released.message == f"it did not stop within {STOP_GRACE_S:g} s"


def test_a_cell_that_only_loads_is_given_back_at_once(stage: Stage, person: Person) -> None:
    def loads_long(slot: Any, order: Any) -> Any:
        if stage.clock() - stage.inbox.began < 1:
            return [(0, Started(slot=slot, attempt=order.attempt, stage="load"))]
        return good(slot, order)

    stage.engine.script = loads_long
    person.asks(5, "drain", "cpu:0", "cpu:1", now=True)
    person.asks(9, "add", "cpu:0")
    end = stage.run(cells(2))
    assert end.progress.states == {"success": 2}
    assert [notice.data["samples"] for notice in stage.notices_of("cell_released")] == [0, 0]


def test_a_run_whose_devices_are_all_drained_waits_and_goes_on_when_one_is_added(
    stage: Stage, person: Person
) -> None:
    person.asks(3, "drain", "cpu:0", "cpu:1")
    person.asks(500, "add", "cpu:1")
    end = stage.run(cells(4))
    assert end.progress.states == {"success": 4}
    assert end.seconds > 500
    (waits,) = [text for text in stage.warnings() if "wait for slots" in text]
    assert waits.startswith("2 cells wait for slots: `benchfleet slots add cpu:0 cpu:1`")
    assert {spec.devices[0].index for spec in stage.engine.opened[2:]} == {1}


def test_a_run_whose_devices_are_all_removed_ends_and_says_why(
    stage: Stage, person: Person
) -> None:
    person.asks(3, "remove", "cpu:0", "cpu:1")
    end = stage.run(cells(4))
    assert end.progress.states == {"success": 2, "pending": 2}
    why = (
        "no device is left that a slot starts on: cpu:0, cpu:1 were removed; "
        "`benchfleet slots add cpu:0 cpu:1` brings them back"
    )
    assert {reason for _, reason in end.impossible} == {why}
    (blocked,) = stage.notices_of("blocked")  # the two that run then are not among them
    waiting = [record.path for record in stage.ledger.cells(states=["pending"])]
    assert blocked.message == f"no machine can run {examples(waiting, 1)}: {why}"


def test_a_removed_device_is_left_out_of_later_runs_until_it_is_added(
    stage: Stage, person: Person
) -> None:
    person.asks(3, "remove", "cpu:1")
    stage.run(cells(4))
    stage.engine.opened.clear()
    person.asks(100, "add", "cpu:1")
    stage.run(cells(12))
    assert [spec.devices[0].index for spec in stage.engine.opened][:1] == [0]
    assert "cpu:1 is left out: it was removed" in stage.warnings()[-1]
    stage.engine.opened.clear()
    person._due.clear()
    person.asks(1, "add", "cpu:1")
    stage.run(cells(20))
    stage.engine.opened.clear()
    stage.run(cells(24))
    assert {spec.devices[0].index for spec in stage.engine.opened} == {0, 1}


def test_a_removed_device_of_a_host_is_left_out_once_the_host_connects_to_a_later_run(
    stage: Stage, person: Person
) -> None:
    one, two = (Device(kind="cpu", index=i, host="lab2") for i in range(2))
    stage.engine.far = ("lab2",)
    ready = HostReady(host="lab2", devices=(one, two), slots=2, threads=2)
    stage.inbox.post(ready)
    person.asks(3, "remove", "lab2/cpu:0")
    stage.run(cells(4), Pool(devices=(), slots=0))
    stage.engine.opened.clear()
    stage.inbox.post(ready, after=5)
    person.asks(60, "add", "lab2/cpu:0")
    end = stage.run(cells(12), Pool(devices=(), slots=0))
    assert end.progress.states == {"success": 12}
    assert [spec.devices[0] for spec in stage.engine.opened] == [two, one]
    assert "lab2/cpu:0 is left out: it was removed" in stage.warnings()[-1]


def test_a_run_whose_only_host_has_no_device_that_was_not_removed_ends(
    stage: Stage, person: Person
) -> None:
    device = Device(kind="cpu", index=0, host="lab2")
    stage.engine.far = ("lab2",)
    ready = HostReady(host="lab2", devices=(device,), slots=1, threads=2)
    stage.inbox.post(ready)
    person.asks(3, "remove", "lab2/cpu:0")
    stage.run(cells(4), Pool(devices=(), slots=0))
    stage.engine.opened.clear()
    stage.inbox.post(ready, after=5)
    end = stage.run(cells(4), Pool(devices=(), slots=0))
    assert "removed" in end.broken
    assert not stage.engine.opened


def test_a_run_of_which_every_device_was_removed_before_ends_at_once(
    stage: Stage, person: Person
) -> None:
    person.asks(3, "remove", "cpu:0", "cpu:1")
    stage.run(cells(4))
    stage.engine.opened.clear()
    end = stage.run(cells(4))
    assert "removed" in end.broken
    assert not stage.engine.opened


def test_draining_now_hurries_a_device_that_is_being_drained(stage: Stage, person: Person) -> None:
    person.asks(2, "drain", "cpu:1")
    person.asks(5, "drain", "cpu:1", now=True)
    end = stage.run(cells(4))
    assert end.progress.states == {"success": 4}
    assert len(stage.notices_of("cell_released")) == 1


def test_a_device_added_again_while_its_cell_runs_keeps_its_slot(
    stage: Stage, person: Person
) -> None:
    person.asks(2, "drain", "cpu:1")
    person.asks(5, "add", "cpu:1")
    end = stage.run(cells(6))
    assert end.progress.states == {"success": 6}
    assert len(stage.engine.opened) == 2
    assert "is free" not in " ".join(slot_messages(stage)[1:])


def test_a_cell_over_two_gpus_waits_for_the_one_that_was_drained(
    stage: Stage, person: Person
) -> None:
    person.asks(3, "drain", "gpu:1")
    person.asks(300, "add", "gpu:1")
    end = stage.run(cells(2, gpus=2), GPUS)
    assert end.progress.states == {"success": 2}
    assert end.seconds > 300
    assert any("1 cell waits for slots" in text for text in stage.warnings())
