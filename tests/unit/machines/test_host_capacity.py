"""What a run may use of a host follows from its inventory and from its facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bare_machine import facts_of
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.usage import Price
from benchfleet.errors import DeviceError
from benchfleet.machines.facts import Facts, Gpu
from benchfleet.machines.host_capacity import host_capacity

BARE = facts_of(cores=8, no_gpu="no driver")
BROKEN = replace(BARE, no_gpu="", gpu_problem="NVML: Driver/library version mismatch")
GPUS = replace(
    BARE,
    no_gpu="",
    gpus=tuple(Gpu(index=i, name="H100", memory=80, uuid=f"GPU-{i}", free=80) for i in (0, 1)),
)


def labels(host: Host, facts: Facts) -> list[str]:
    return [device.label for device in host_capacity(host, facts).devices]


def test_a_host_without_gpus_gives_slots_of_its_cpu() -> None:
    assert labels(Host(name="lab1"), BARE) == [f"lab1/cpu:{index}" for index in range(4)]


def test_a_host_gives_all_its_gpus_or_those_named() -> None:
    assert labels(Host(name="lab1"), GPUS) == ["lab1/gpu:0", "lab1/gpu:1"]
    assert labels(Host(name="lab1", gpus=(1,)), GPUS) == ["lab1/gpu:1"]


def test_a_host_is_given_at_the_price_that_its_inventory_says() -> None:
    price = Price(amount=1.2, currency="EUR", per_gpu=True)
    assert host_capacity(Host(name="lab1", price=price), GPUS).price == price
    assert host_capacity(Host(name="lab1"), GPUS).price is None


def test_gpus_that_its_inventory_leaves_out_can_be_added_later() -> None:
    spare = host_capacity(Host(name="lab1", gpus=(1,)), GPUS).spare
    assert [device.label for device in spare] == ["lab1/gpu:0"]
    assert host_capacity(Host(name="lab1"), GPUS).spare == ()
    assert host_capacity(Host(name="lab1", cpu_slots=2), GPUS).spare == ()


def test_a_host_begins_with_few_slots_where_they_are_to_be_as_many_as_there_is_room_for() -> None:
    gpus = host_capacity(Host(name="lab1", slots_per_gpu=AUTO), GPUS)
    assert (len(gpus.devices), gpus.slots, gpus.begin) == (2, 16, 1)
    cpu = host_capacity(Host(name="lab1", cpu_slots=AUTO), GPUS)
    assert (cpu.devices[0].label, len(cpu.devices), cpu.slots, cpu.begin) == ("lab1/cpu:0", 8, 8, 2)
    assert host_capacity(Host(name="lab1", slots_per_gpu=3), GPUS).begin == 0


def test_a_host_whose_folder_takes_no_files_gives_nothing() -> None:
    full = replace(BARE, folder_problem="/data cannot be written: No space left on device")
    with pytest.raises(DeviceError, match=r"No space left on device; make room there, or name"):
        host_capacity(Host(name="lab1"), full)


def test_a_host_whose_driver_is_broken_does_not_become_one_without_gpus() -> None:
    with pytest.raises(DeviceError, match=r"Driver/library version mismatch.*cpu_slots"):
        host_capacity(Host(name="lab1"), BROKEN)


def test_slots_of_its_cpu_are_given_whatever_its_driver_says() -> None:
    assert labels(Host(name="lab1", cpu_slots=1), BROKEN) == ["lab1/cpu:0"]


@pytest.mark.parametrize(("facts", "why"), [(BARE, "no driver"), (BROKEN, "mismatch")])
def test_a_gpu_that_is_named_and_not_there_is_reported_with_the_reason(
    facts: Facts, why: str
) -> None:
    with pytest.raises(DeviceError, match=f"no GPU 3; it has none .*{why}"):
        host_capacity(Host(name="lab1", gpus=(3,)), facts)
