"""Whether slots should be at their cells for longer than so many seconds."""

from __future__ import annotations

import pytest

from benchfleet.domain.resource import Device
from benchfleet.engines.base import SlotId, SlotSpec
from benchfleet.runner.progress import Running
from benchfleet.runner.resources.busy_times import BusyTimes
from benchfleet.runner.resources.slot import Slot


def slot(name: str) -> Slot:
    spec = SlotSpec(slot=SlotId(name), devices=(Device(kind="cpu", index=0),), threads=1, log="")
    return Slot(spec=spec, width=1, display=Running(slot=name, devices="cpu:0"))


A, B = slot("a"), slot("b")


@pytest.fixture
def busy() -> BusyTimes:
    return BusyTimes()


def outlast(busy: BusyTimes, key: str, slots: int, seconds: float, now: float) -> bool:
    return busy.outlast(key, slots, seconds, now, lambda slot: True)


def test_a_cell_lasts_as_expected_and_then_may_be_late_by_as_much_again(busy: BusyTimes) -> None:
    busy.begin(A, "m", 100.0, 60.0)
    remaining = {101.0: 59, 150.0: 10, 165.0: 5, 260.0: 100}  # seconds, by the time
    for now, seconds in remaining.items():
        assert outlast(busy, "m", 1, seconds - 0.5, now)
        assert not outlast(busy, "m", 1, seconds + 0.5, now)


def test_one_whose_time_nobody_knows_may_take_as_long_again(busy: BusyTimes) -> None:
    busy.begin(A, "m", 100.0, None)
    assert not outlast(busy, "m", 1, 30.0, 129.0)
    assert outlast(busy, "m", 1, 30.0, 131.0)


def test_all_slots_have_to_compute_for_so_long(busy: BusyTimes) -> None:
    busy.begin(A, "m", 0.0, 600.0)
    assert outlast(busy, "m", 1, 60.0, 10.0)
    assert not outlast(busy, "m", 2, 60.0, 10.0)  # the other one loads, or is between two cells
    busy.begin(B, "m", 0.0, 40.0)
    assert not outlast(busy, "m", 2, 60.0, 10.0)
    busy.begin(B, "m", 40.0, 600.0)
    assert outlast(busy, "m", 2, 60.0, 50.0)
    busy.end(B)
    busy.end(B)  # it may also close
    assert outlast(busy, "m", 1, 60.0, 50.0)
    busy.begin(A, "n", 60.0, 600.0)
    assert not outlast(busy, "m", 0, 60.0, 70.0)
    assert outlast(busy, "n", 1, 60.0, 70.0)


def test_only_slots_that_will_take_such_cells_count(busy: BusyTimes) -> None:
    busy.begin(A, "m", 0.0, 600.0)
    assert not busy.outlast("m", 1, 60.0, 10.0, lambda slot: slot is B)
    busy.begin(B, "m", 0.0, 5.0)
    assert busy.outlast("m", 1, 60.0, 10.0, lambda slot: slot is A)
    drained = slot("c")
    busy.begin(drained, "n", 0.0, 600.0)
    assert outlast(busy, "n", 1, 60.0, 10.0)
    drained.draining = True
    assert not outlast(busy, "n", 1, 60.0, 10.0)
