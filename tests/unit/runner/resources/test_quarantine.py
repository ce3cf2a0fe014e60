"""Devices are fenced off for good reasons alone, and for no longer than needed."""

from __future__ import annotations

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.quarantine import MAX_RETRY_DEVICE_S, RETRY_DEVICE_S, Quarantine
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


def test_each_cell_that_fails_there_doubles_the_time_until_one_ends_well() -> None:
    fences = Quarantine()
    for now, wait in ((0.0, RETRY_DEVICE_S), (1000.0, 2 * RETRY_DEVICE_S)):
        fences.set_aside([TWO], now, failed=True)
        assert not fences.take_back(now + wait - 1)
        assert fences.take_back(now + wait)
    for now in range(2000, 3000, 100):
        fences.set_aside([TWO], now, failed=True)
    assert not fences.take_back(2900 + MAX_RETRY_DEVICE_S - 1)
    assert fences.take_back(2900 + MAX_RETRY_DEVICE_S)
    fences.works((TWO,))
    fences.set_aside([TWO], 9000, failed=True)
    assert fences.take_back(9000 + RETRY_DEVICE_S)


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
