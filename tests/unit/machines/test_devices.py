"""Devices are checked against what NVML shows."""

from __future__ import annotations

import pytest

from benchfleet.domain.resource import Device
from benchfleet.errors import DeviceError, NoGpu
from benchfleet.machines.devices import select_devices

TWO = tuple(
    Device(kind="gpu", index=i, name="H200", memory=150 * 10**9, uuid=f"GPU-{i}abc") for i in (0, 1)
)


@pytest.fixture(autouse=True)
def _no_restriction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def no_gpu() -> tuple[Device, ...]:
    raise NoGpu("this machine has no NVIDIA GPU that can be used (NVML: not found)")


def test_named_gpus_come_in_the_order_they_were_named() -> None:
    assert [d.index for d in select_devices([1, 0], None, gpus=lambda: TWO)] == [1, 0]


def test_a_gpu_that_is_not_here_is_named_with_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"no GPU 7 here; this machine has 0, 1"):
        select_devices([0, 7], None, gpus=lambda: TWO)


def test_gpus_on_a_machine_without_any_say_how_to_go_on() -> None:
    with pytest.raises(DeviceError, match="leave --gpus out to run on the CPU"):
        select_devices([7], None, gpus=no_gpu)


def test_a_gpu_named_twice_is_refused() -> None:
    with pytest.raises(DeviceError, match="once"):
        select_devices([0, 0], None, gpus=lambda: TWO)


def test_what_is_here_is_used_when_nothing_is_asked_for() -> None:
    assert select_devices(None, None, gpus=lambda: TWO) == TWO
    fallen_back = select_devices(None, None, gpus=no_gpu)
    assert {device.kind for device in fallen_back} == {"cpu"}


def test_an_empty_list_of_gpus_means_the_cpu() -> None:
    assert {device.kind for device in select_devices([], None, gpus=lambda: TWO)} == {"cpu"}


def test_cpu_slots_are_as_many_as_asked_for() -> None:
    assert [d.label for d in select_devices(None, 3, gpus=lambda: TWO)] == [
        "cpu:0",
        "cpu:1",
        "cpu:2",
    ]
    with pytest.raises(DeviceError, match="at least 1"):
        select_devices(None, 0, gpus=lambda: TWO)


@pytest.mark.parametrize(("visible", "left"), [("1", [1]), ("GPU-0a", [0]), ("1,0", [0, 1])])
def test_an_environment_that_was_given_some_gpus_takes_no_others(
    monkeypatch: pytest.MonkeyPatch, visible: str, left: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [device.index for device in select_devices(None, None, gpus=lambda: TWO)] == left


def test_an_environment_that_was_given_no_gpu_takes_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = select_devices(None, None, gpus=lambda: TWO)
    assert {device.kind for device in found} == {"cpu"}


def test_a_gpu_that_does_not_answer_is_no_reason_to_run_on_the_cpu() -> None:
    def broken() -> tuple[Device, ...]:
        raise DeviceError("a GPU does not answer (NVML: Unknown Error)")

    with pytest.raises(DeviceError, match="does not answer"):
        select_devices(None, None, gpus=broken)


def test_slots_asked_for_without_a_gpu_are_cpu_slots() -> None:
    assert len(select_devices(None, None, cpu_default=4, gpus=no_gpu)) == 4
