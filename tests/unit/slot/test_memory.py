"""A model's memory is known to be back by the best count that there is."""

from __future__ import annotations

import pytest

from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.errors import DeviceError
from benchfleet.slot.memory import Memory

GIB = 2**30


def held(*, ram: int, gpu: int | None = None, device: int | None = None) -> Reading:
    """A reading of a slot on one GPU, of which `gpu` bytes are its own."""
    return Reading(at=0.0, ram=ram, gpus=(GpuReading(index=0, own=gpu, memory=device),))


def came_back(*moments: Reading) -> bool:
    memory = Memory(iter(moments).__next__)
    memory.note_before_load()
    memory.note_after_load()
    return memory.came_back()


def test_memory_that_came_back_is_known_by_each_count() -> None:
    free = held(ram=GIB, gpu=None, device=GIB)
    full = held(ram=2 * GIB, gpu=40 * GIB, device=41 * GIB)
    assert came_back(free, full, held(ram=GIB, gpu=GIB // 2, device=2 * GIB))


def test_the_processs_own_count_is_believed_before_the_devices() -> None:
    neighbour = 30 * GIB
    assert came_back(
        held(ram=GIB), held(ram=GIB, gpu=40 * GIB, device=40 * GIB), held(ram=GIB, device=neighbour)
    )


def test_the_devices_count_is_used_where_nvml_does_not_know_this_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    free, full = held(ram=GIB, device=GIB), held(ram=GIB, device=41 * GIB)
    assert came_back(free, full, free)
    assert capsys.readouterr().err == ""
    assert not came_back(free, full, full)
    assert "40.0 GiB are held: GPU memory of the whole device" in capsys.readouterr().err


def test_memory_that_stays_is_reported_with_its_count(capsys: pytest.CaptureFixture[str]) -> None:
    full = held(ram=GIB, gpu=40 * GIB)
    assert not came_back(held(ram=GIB), full, full)
    assert "40.0 GiB are held: GPU memory of the slot" in capsys.readouterr().err
    assert not came_back(held(ram=GIB), held(ram=9 * GIB), held(ram=9 * GIB))
    assert "8.0 GiB are held: RAM" in capsys.readouterr().err


def test_what_a_load_that_failed_left_is_not_excused_by_the_model_before() -> None:
    sizes = [GIB, 100 * GIB, GIB, 3 * GIB]
    memory = Memory((held(ram=size) for size in sizes).__next__)
    memory.note_before_load()
    memory.note_after_load()
    memory.note_before_load()  # of the next model, whose load fails
    assert not memory.came_back()


def test_a_gpu_that_was_lost_is_no_memory_that_came_back() -> None:
    free, full = held(ram=GIB, device=GIB), held(ram=GIB, gpu=40 * GIB, device=41 * GIB)
    with pytest.raises(DeviceError, match="GPU memory of the whole device"):
        came_back(free, full, held(ram=GIB))
