"""Devices are shared out as the pool allows."""

from __future__ import annotations

from benchfleet.domain.resource import Device
from benchfleet.runner.place import Pool, impossible, next_group
from benchfleet.testing.samples import sample_cell

GPUS = tuple(Device(kind="gpu", index=i, memory=24 * 10**9) for i in range(4))
CPUS = tuple(Device(kind="cpu", index=i) for i in range(2))


def filled(pool: Pool, width: int) -> list[tuple[int, ...]]:
    """The device indices of slots opened one after another until there is no room."""
    taken: list[tuple[Device, ...]] = []
    while group := next_group(pool, taken, width):
        taken.append(group)
    return [tuple(device.index for device in group) for group in taken]


def test_slots_spread_over_the_devices_before_they_share_one() -> None:
    assert filled(Pool(devices=GPUS[:2], slots=4), 1) == [(0,), (1,), (0,), (1,)]


def test_no_more_slots_than_asked_for() -> None:
    assert filled(Pool(devices=GPUS, slots=3), 1) == [(0,), (1,), (2,)]


def test_a_wide_slot_takes_whole_devices() -> None:
    pool = Pool(devices=GPUS, slots=8)
    assert filled(pool, 2) == [(0, 1), (2, 3)]
    assert next_group(pool, [(GPUS[0],), GPUS[1:3]], 2) is None
    assert next_group(pool, [GPUS[0:2]], 1) == (GPUS[2],)


def test_cpu_slots_are_devices_too() -> None:
    assert filled(Pool(devices=CPUS, slots=2), 1) == [(0,), (1,)]


def test_a_cell_that_needs_more_gpus_than_there_are_is_impossible() -> None:
    cell = sample_cell(gpus=5)
    assert impossible(cell, Pool(devices=GPUS, slots=4)) == "needs 5 GPUs, this run has 4"


def test_a_cell_that_needs_more_memory_than_a_gpu_has_is_impossible() -> None:
    pool = Pool(devices=GPUS, slots=4)
    assert "40 GB" in impossible(sample_cell(vram=40 * 10**9), pool)
    assert impossible(sample_cell(vram=20 * 10**9), pool) == ""
    assert "no GPU" in impossible(sample_cell(vram=1), Pool(devices=CPUS, slots=2))
