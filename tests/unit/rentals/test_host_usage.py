"""Since when a rented host has nothing to do."""

from __future__ import annotations

from benchfleet.engines.base import Done, SlotId, SlotLost, SlotReady
from benchfleet.rentals.host_usage import HostUsage

ONE, OTHER = SlotId("one"), SlotId("other")


def test_a_host_is_idle_from_its_last_cell_on() -> None:
    now = [0.0]
    usage = HostUsage(lambda: now[0])
    usage.began(ONE)
    now[0] = 10.0
    assert usage.idle_for() == 10.0
    usage.follow(SlotReady(slot=ONE, hello={}))
    usage.began(ONE, cell=True)
    now[0] = 500.0
    assert usage.idle_for() == 0.0
    usage.follow(Done(slot=ONE, attempt="a", score={}))
    now[0] = 620.0
    assert usage.idle_for() == 120.0
    assert usage.cells == 1


def test_a_slot_that_is_lost_runs_no_cell_and_cells_elsewhere_do_not_count() -> None:
    now = [0.0]
    usage = HostUsage(lambda: now[0])
    usage.began(ONE)
    usage.began(OTHER, cell=True)
    assert usage.cells == 0
    usage.began(ONE, cell=True)
    usage.follow(SlotLost(slot=ONE, reason="gone"))
    now[0] = 5.0
    assert usage.idle_for() == 5.0
