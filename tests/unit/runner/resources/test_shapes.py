"""Devices are shared out as the pool allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from benchfleet.domain.resource import Device, Need
from benchfleet.runner.resources.allocator import DeviceAllocator, SlotNeeds
from benchfleet.runner.resources.shapes import Pool, impossible, larger_than
from benchfleet.testing.sample_cells import sample_cell

GPUS = tuple(Device(kind="gpu", index=i, memory=24 * 10**9) for i in range(4))
CPUS = tuple(Device(kind="cpu", index=i) for i in range(2))


def next_group(
    pools: Sequence[Pool],
    taken: Sequence[tuple[Device, ...]],
    width: int,
    *,
    kept: Collection[Device] = (),
    **asked: Any,
) -> tuple[Device, ...] | None:
    """The devices of one more slot beside those that have `taken` theirs."""
    seats = DeviceAllocator()
    seats.use(pools)
    for devices in taken:
        seats.take(devices, whole=len(devices) > 1 or devices[0] in kept, memory=0)
    return seats.room_for(SlotNeeds(width, **asked))


def seats_of(pools: Sequence[Pool]) -> DeviceAllocator:
    seats = DeviceAllocator()
    seats.use(pools)
    return seats


def filled(pool: Pool, width: int) -> list[tuple[int, ...]]:
    """The device indices of slots opened one after another until there is no room."""
    taken: list[tuple[Device, ...]] = []
    while group := next_group([pool], taken, width):
        taken.append(group)
    return [tuple(device.index for device in group) for group in taken]


def test_slots_spread_over_the_devices_before_they_share_one() -> None:
    assert filled(Pool(devices=GPUS[:2], slots=4), 1) == [(0,), (1,), (0,), (1,)]


def test_no_more_slots_than_asked_for() -> None:
    assert filled(Pool(devices=GPUS, slots=3), 1) == [(0,), (1,), (2,)]


def test_a_wide_slot_takes_whole_devices() -> None:
    pool = Pool(devices=GPUS, slots=8)
    assert filled(pool, 2) == [(0, 1), (2, 3)]
    assert next_group([pool], [(GPUS[0],), GPUS[1:3]], 2) is None
    assert next_group([pool], [GPUS[0:2]], 1) == (GPUS[2],)


def test_a_cell_that_needs_more_gpus_than_there_are_is_impossible() -> None:
    cell = sample_cell(gpus=5)
    assert impossible(cell.need, [Pool(devices=GPUS, slots=4)]) == "needs 5 GPUs, this run has 4"


def test_a_cell_that_needs_more_memory_than_a_gpu_has_is_impossible() -> None:
    pool = Pool(devices=GPUS, slots=4)
    assert "40 GB" in impossible(sample_cell(vram=40 * 10**9).need, [pool])
    assert impossible(sample_cell(vram=20 * 10**9).need, [pool]) == ""
    assert "no GPU" in impossible(sample_cell(vram=1).need, [Pool(devices=CPUS, slots=2)])


def test_the_machine_with_the_largest_part_free_gives_the_next_slot() -> None:
    far = tuple(Device(kind="cpu", index=i, host="lab") for i in range(4))
    pools = [Pool(devices=CPUS, slots=2), Pool(devices=far, slots=4)]
    taken: list[tuple[Device, ...]] = []
    while group := next_group(pools, taken, 1):
        taken.append(group)
    assert [devices[0].host for devices in taken] == ["", "lab", "lab", "", "lab", "lab"]


def test_a_wide_slot_has_all_its_devices_in_one_machine() -> None:
    far = tuple(Device(kind="gpu", index=i, host="lab") for i in range(2))
    pools = [Pool(devices=GPUS[:1], slots=1), Pool(devices=far, slots=2)]
    assert next_group(pools, [], 2) == far
    assert next_group(pools, [far[:1]], 2) is None


def test_what_one_of_several_machines_can_take_is_possible() -> None:
    far = (Device(kind="gpu", index=0, memory=80 * 10**9, host="lab"),)
    pools = [Pool(devices=CPUS, slots=2), Pool(devices=far, slots=1)]
    assert impossible(sample_cell(vram=40 * 10**9).need, pools) == ""
    why = impossible(sample_cell(vram=90 * 10**9).need, pools)
    assert why == "needs 90 GB of GPU memory, the largest machine (lab) has 80.0"


def test_a_cell_that_needs_a_gpu_gets_none_of_the_machine_that_has_more_room_but_no_gpu() -> None:
    far = Device(kind="gpu", index=0, host="lab")
    pools = [Pool(devices=CPUS, slots=2), Pool(devices=(far,), slots=2)]
    assert next_group(pools, [(far,)], 1, gpu=True) == (far,)
    assert next_group(pools, [(far,)], 1) == (CPUS[0],)
    assert next_group(pools, [(far,), (far,)], 1, gpu=True) is None


def test_a_slot_that_is_to_be_alone_shares_its_gpu_with_none() -> None:
    pool = Pool(devices=GPUS[:2], slots=4)
    taken = [GPUS[:1]]
    assert next_group([pool], taken, 1, alone=True) == (GPUS[1],)
    assert next_group([pool], [*taken, (GPUS[1],)], 1, alone=True) is None
    assert next_group([pool], [*taken, (GPUS[1],)], 1, kept={GPUS[1]}) == (GPUS[0],)
    assert next_group([pool], [*taken, *taken, (GPUS[1],)], 1, kept={GPUS[1]}) is None


def test_a_cpu_slot_that_is_to_be_alone_has_its_machine_alone() -> None:
    far = tuple(Device(kind="cpu", index=i, host="lab") for i in range(3))
    pools = [Pool(devices=CPUS, slots=2), Pool(devices=far, slots=3)]
    assert next_group(pools, [CPUS[:1]], 1, alone=True) == far
    assert next_group(pools, [CPUS[:1], far], 1) == (CPUS[1],)
    assert next_group(pools, [CPUS[:1], far[:1]], 1, alone=True) is None


def test_larger_is_clearly_more_memory_on_as_many_gpus() -> None:
    large = tuple(Device(kind="gpu", index=i, memory=25 * 10**9) for i in range(2))
    huge = tuple(Device(kind="gpu", index=i, memory=80 * 10**9) for i in range(2))
    pool = Pool(devices=GPUS[:1] + huge[:1], slots=2)
    assert larger_than(GPUS[:1], [pool]) == int(26.4 * 10**9)
    assert larger_than(GPUS[:2], [pool]) == 0
    assert larger_than(GPUS[:2], [pool, Pool(devices=huge, slots=2)]) > 0
    assert larger_than(GPUS[:1], [Pool(devices=large, slots=2)]) == 0
    assert larger_than(CPUS[:1], [pool]) == 0


GB = 10**9


def test_slots_share_a_gpu_as_far_as_the_memory_that_their_cells_need_goes() -> None:
    seats, pool = DeviceAllocator(), Pool(devices=GPUS[:1], slots=4)
    seats.use([pool])
    for need in (10 * GB, 10 * GB):
        assert seats.room_for(SlotNeeds(memory=need, promised=need)) == GPUS[:1]
        seats.take(GPUS[:1], whole=False, memory=need)
    assert seats.room_for(SlotNeeds(memory=10 * GB, promised=10 * GB)) is None
    assert seats.room_for(SlotNeeds(memory=4 * GB, promised=4 * GB)) == GPUS[:1]
    assert seats.free_memory(GPUS[:1], 10 * GB) == 14 * GB
    seats.promise(GPUS[:1], 10 * GB, 2 * GB)
    assert seats.room_for(SlotNeeds(memory=10 * GB, promised=10 * GB)) == GPUS[:1]


def test_what_is_given_back_is_found_again_however_often_seats_change_hands() -> None:
    far = tuple(Device(kind="cpu", index=i, host="lab") for i in range(4))
    seats = DeviceAllocator()
    seats.use([Pool(devices=CPUS, slots=2), Pool(devices=far, slots=4)])
    for turn in range(50):
        taken = []
        while devices := seats.room_for(SlotNeeds()):
            seats.take(devices, whole=False, memory=0)
            taken.append(devices)
        assert len(taken) == 6
        assert seats.full
        for devices in taken[turn % 2 :] + taken[: turn % 2]:
            seats.give(devices, whole=False, memory=0)
        assert not seats.full


def test_the_devices_that_a_slot_could_have_first_are_those_that_are_free_first() -> None:
    far = tuple(Device(kind="gpu", index=i, memory=24 * GB, host="lab") for i in range(2))
    seats = DeviceAllocator()
    seats.use([Pool(devices=GPUS, slots=4), Pool(devices=far, slots=2)])
    ends = {GPUS[0]: 9.0, GPUS[1]: 1.0, GPUS[2]: 5.0, GPUS[3]: 2.0, far[0]: 1.0, far[1]: 8.0}
    free = ends.__getitem__
    assert seats.earliest_free(SlotNeeds(2, gpu=True), free=free) == (GPUS[1], GPUS[3])
    assert seats.earliest_free(SlotNeeds(2, gpu=True), free=free, without=GPUS[:3]) == far
    assert seats.earliest_free(SlotNeeds(5, gpu=True), free=free) is None


def test_a_server_elsewhere_takes_none_of_the_slots() -> None:
    pool = Pool(devices=CPUS[:1], slots=1)
    seats = seats_of([pool])
    seats.use_endpoints({"lab:1", "lab:2"}, 1)
    first = (seats.room_for(SlotNeeds(endpoint="lab:1")) or CPUS)[0]
    assert first.label == "endpoint:lab:1"
    seats.take((first,), whole=False, memory=0)
    assert seats.room_for(SlotNeeds(endpoint="lab:1")) is None
    assert seats.room_for(SlotNeeds(endpoint="lab:2")) is not None
    assert seats.room_for(SlotNeeds()) == CPUS[:1]
    seats.take(CPUS[:1], whole=False, memory=0)
    assert not seats.full  # the other server can be asked
    seats.give((first,), whole=False, memory=0)
    assert seats.room_for(SlotNeeds(endpoint="lab:1")) == (first,)
    assert not impossible(Need(endpoint="lab:1"), [pool])


def test_a_server_is_one_device_for_all_machines_unless_it_is_local_to_each() -> None:
    far = replace(CPUS[0], host="far")
    seats = seats_of([Pool(devices=CPUS[:1], slots=1), Pool(devices=(far,), slots=1)])
    seats.use_endpoints({"lab:1", "127.0.0.1:1"}, 1)
    for name, hosts in (("lab:1", [""]), ("127.0.0.1:1", ["", "far"])):
        for host in hosts:
            devices = seats.room_for(SlotNeeds(endpoint=name))
            assert devices is not None
            assert devices[0].host == host
            seats.take(devices, whole=False, memory=0)
        assert seats.room_for(SlotNeeds(endpoint=name)) is None


def test_what_is_alone_on_a_server_waits_for_the_others_and_they_for_it() -> None:
    seats = seats_of([Pool(devices=CPUS[:1], slots=1)])
    seats.use_endpoints({"lab:1"}, 4)
    shared = seats.room_for(SlotNeeds(endpoint="lab:1")) or ()
    seats.take(shared, whole=False, memory=0)
    assert seats.room_for(SlotNeeds(endpoint="lab:1", alone=True)) is None
    seats.give(shared, whole=False, memory=0)
    alone = seats.room_for(SlotNeeds(endpoint="lab:1", alone=True)) or ()
    seats.take(alone, whole=True, memory=0)
    assert seats.room_for(SlotNeeds(endpoint="lab:1")) is None
