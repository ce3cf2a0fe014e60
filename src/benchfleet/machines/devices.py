"""The devices of this machine: GPUs as NVML sees them, and shares of the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchfleet.domain.resource import Device
from benchfleet.errors import DeviceError, NoGpu
from benchfleet.machines.nvml import open_nvml

DEFAULT_CPU_SLOTS = 2  # by default, where there is no GPU and there are as many cores
MAX_SLOTS_PER_GPU = 8  # slots where as many are wanted as there is room for


def nvml_gpus() -> tuple[Device, ...]:
    """The NVIDIA GPUs here, in NVML's order; raises DeviceError where NVML cannot be asked.

    One that does not answer is among them, without name and memory: a slot that is opened there
    says what is wrong with it.
    """
    with open_nvml() as nvml:
        return tuple(
            Device(kind="gpu", index=gpu.index, name=gpu.name, memory=gpu.memory, uuid=gpu.uuid)
            for gpu in nvml.gpus()
        )


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def select_devices(
    gpu_ids: Sequence[int] | None,
    cpu_slots: int | None,
    *,
    cpu_default: int | None = None,
    gpus: Callable[[], tuple[Device, ...]] = nvml_gpus,
) -> tuple[Device, ...]:
    """The devices that a run asks for: the GPUs named, or CPU slots, or what is here.

    Raises DeviceError for a GPU id that is not here, naming those that are.
    """
    if gpu_ids:
        return _named_gpus(gpu_ids, gpus)
    if gpu_ids is None and cpu_slots is None:
        try:
            if visible := _allowed(gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")):
                return visible
        except NoGpu:
            cpu_slots = None  # and none was asked for
    count = cpu_slots if cpu_slots is not None else cpu_default or min(DEFAULT_CPU_SLOTS, cores())
    if count < 1:
        raise DeviceError(f"{count} CPU slots cannot run anything; ask for at least 1")
    return tuple(Device(kind="cpu", index=index) for index in range(count))


def _allowed(gpus: tuple[Device, ...], visible: str | None) -> tuple[Device, ...]:
    """The GPUs that an environment restricted by CUDA_VISIBLE_DEVICES leaves to us."""
    if visible is None:
        return gpus
    named = [part.strip() for part in visible.split(",") if part.strip()]
    return tuple(
        gpu
        for gpu in gpus
        if any(part == str(gpu.index) or gpu.uuid.startswith(part) for part in named)
    )


def _named_gpus(
    gpu_ids: Sequence[int], gpus: Callable[[], tuple[Device, ...]]
) -> tuple[Device, ...]:
    requested = ", ".join(map(str, gpu_ids))
    if len(set(gpu_ids)) != len(gpu_ids):
        raise DeviceError(f"GPU ids {requested}: each may be named once")
    try:
        present = {device.index: device for device in gpus()}
    except DeviceError as error:
        raise DeviceError(
            f"GPU ids {requested}: {error}; leave --gpus out to run on the CPU"
        ) from None
    missing = [index for index in gpu_ids if index not in present]
    if missing:
        have = ", ".join(map(str, present)) or "none"
        raise DeviceError(f"no GPU {', '.join(map(str, missing))} here; this machine has {have}")
    return tuple(present[index] for index in gpu_ids)
