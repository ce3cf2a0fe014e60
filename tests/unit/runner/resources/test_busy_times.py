"""For how long even the slot that began last has been at its cell."""

from __future__ import annotations

from benchfleet.engines.base import SlotId
from benchfleet.runner.resources.busy_times import BusyTimes

A, B = SlotId("a"), SlotId("b")


def test_the_slot_that_began_last_counts_until_it_ends() -> None:
    busy = BusyTimes()
    assert busy.seconds("m", 10.0) == 0.0
    busy.begin(A, "m", 1.0)
    assert busy.seconds("m", 10.0) == 9.0
    busy.begin(B, "m", 8.0)
    assert busy.seconds("m", 10.0) == 2.0
    busy.end(B)
    assert busy.seconds("m", 10.0) == 9.0
    assert busy.seconds("n", 10.0) == 0.0


def test_a_slot_counts_from_the_beginning_of_its_latest_cell() -> None:
    busy = BusyTimes()
    busy.begin(A, "m", 1.0)
    busy.begin(B, "m", 2.0)
    busy.begin(A, "m", 6.0)
    assert busy.seconds("m", 10.0) == 4.0
    busy.begin(A, "n", 7.0)
    assert (busy.seconds("m", 10.0), busy.seconds("n", 10.0)) == (8.0, 3.0)
    busy.end(A)
    busy.end(A)  # it may also close
    assert busy.seconds("n", 10.0) == 0.0
