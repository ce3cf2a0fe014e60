"""Devices are fenced off for good reasons alone, and for no longer than needed."""

from __future__ import annotations

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.quarantine import RETRY_DEVICE_S, Quarantine
from benchfleet.runner.resources.shapes import Pool

ONE, TWO = (Device(kind="gpu", index=index, memory=80) for index in (0, 1))
POOL = Pool(devices=(ONE, TWO), slots=4)


def test_a_busy_device_is_left_alone_for_a_while_and_said_once() -> None:
    fences = Quarantine()
    assert fences.set_aside([TWO], 100)
    (pool,) = fences.open_pools([POOL])
    assert (pool.devices, pool.slots) == ((ONE,), 2)
    assert fences.whole([POOL]) == [POOL]
    assert not fences.take_back(100 + RETRY_DEVICE_S - 1)
    assert fences.take_back(100 + RETRY_DEVICE_S)
    assert fences.open_pools([POOL]) == [POOL]
    assert not fences.set_aside([TWO], 200)
    fences.works((TWO,))
    assert fences.set_aside([TWO], 300)


def test_one_cell_alone_fences_no_device_off() -> None:
    fences = Quarantine()
    assert not fences.faulted((ONE,), "a")
    assert not fences.faulted((ONE,), "a")
    assert not fences.faulted((TWO,), "a")


def test_two_cells_in_a_row_say_that_it_is_the_device() -> None:
    fences = Quarantine()
    assert not fences.faulted((ONE,), "a")
    fences.works((ONE,))
    assert not fences.faulted((ONE,), "b")
    assert fences.faulted((ONE,), "c")


def test_what_is_left_out_stays_out() -> None:
    fences = Quarantine()
    fences.exclude([ONE])
    assert not fences.take_back(10**9)
    (pool,) = fences.whole([POOL])
    assert pool.devices == (TWO,)
