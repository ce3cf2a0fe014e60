"""Devices are checked against what NVML shows."""

from __future__ import annotations

import pytest

from benchfleet.domain.resource import Device
from benchfleet.errors import DeviceError
from benchfleet.machines.devices import chosen_devices

TWO = tuple(Device(kind="gpu", index=i, name="H200", memory=150 * 10**9) for i in range(2))


def no_gpu() -> tuple[Device, ...]:
    raise DeviceError("this machine has no NVIDIA GPU that can be used (NVML: not found)")


def test_named_gpus_come_in_the_order_they_were_named() -> None:
    assert [d.index for d in chosen_devices([1, 0], None, gpus=lambda: TWO)] == [1, 0]


def test_a_gpu_that_is_not_here_is_named_with_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"no GPU 7 here; this machine has 0, 1"):
        chosen_devices([0, 7], None, gpus=lambda: TWO)


def test_gpus_on_a_machine_without_any_say_how_to_go_on() -> None:
    with pytest.raises(DeviceError, match="leave --gpus out to run on the CPU"):
        chosen_devices([7], None, gpus=no_gpu)


def test_a_gpu_named_twice_is_refused() -> None:
    with pytest.raises(DeviceError, match="once"):
        chosen_devices([0, 0], None, gpus=lambda: TWO)


def test_what_is_here_is_used_when_nothing_is_asked_for() -> None:
    assert chosen_devices(None, None, gpus=lambda: TWO) == TWO
    fallen_back = chosen_devices(None, None, gpus=no_gpu)
    assert {device.kind for device in fallen_back} == {"cpu"}


def test_an_empty_list_of_gpus_means_the_cpu() -> None:
    assert {device.kind for device in chosen_devices([], None, gpus=lambda: TWO)} == {"cpu"}


def test_cpu_slots_are_as_many_as_asked_for() -> None:
    assert [d.label for d in chosen_devices(None, 3, gpus=lambda: TWO)] == [
        "cpu:0",
        "cpu:1",
        "cpu:2",
    ]
    with pytest.raises(DeviceError, match="at least 1"):
        chosen_devices(None, 0, gpus=lambda: TWO)
