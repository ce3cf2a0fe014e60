"""A model's memory is known to be back by the best count that there is."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from benchfleet.slot.memory import Held, Memory

GIB = 2**30


def came_back(*moments: Held) -> bool:
    memory = Memory(iter(moments).__next__)
    memory.note_before_load()
    memory.note_after_load()
    return memory.came_back()


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The searches for cycles through all there is, as they happen."""
    found: list[str] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start" and told["generation"] == 2:
            found.append(phase)

    gc.disable()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.enable()


def test_memory_that_came_back_is_known_by_each_count() -> None:
    free, full = Held(ram=GIB, gpu=0, device=GIB), Held(ram=2 * GIB, gpu=40 * GIB, device=41 * GIB)
    assert came_back(free, full, Held(ram=GIB, gpu=GIB // 2, device=2 * GIB))


def test_the_processs_own_count_is_believed_before_the_devices() -> None:
    neighbour = 30 * GIB
    assert came_back(
        Held(ram=GIB), Held(ram=GIB, gpu=40 * GIB, device=40 * GIB), Held(ram=GIB, device=neighbour)
    )


def test_the_devices_count_is_used_where_nvml_does_not_know_this_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    free, full = Held(ram=GIB, device=GIB), Held(ram=GIB, device=41 * GIB)
    assert came_back(free, full, free)
    assert capsys.readouterr().err == ""
    assert not came_back(free, full, full, full)
    assert "40.0 GiB are held: GPU memory of the whole device" in capsys.readouterr().err


def test_memory_that_stays_is_told_with_its_count(capsys: pytest.CaptureFixture[str]) -> None:
    full = Held(ram=GIB, gpu=40 * GIB)
    assert not came_back(Held(ram=GIB), full, full, full)
    assert "40.0 GiB are held: GPU memory of this process" in capsys.readouterr().err
    assert not came_back(Held(ram=GIB), Held(ram=9 * GIB), *2 * [Held(ram=9 * GIB)])
    assert "8.0 GiB are held: RAM" in capsys.readouterr().err


def test_what_a_load_that_failed_left_is_not_excused_by_the_model_before() -> None:
    held = [GIB, 100 * GIB, GIB, 3 * GIB, 3 * GIB]
    memory = Memory((Held(ram=size) for size in held).__next__)
    memory.note_before_load()
    memory.note_after_load()
    memory.note_before_load()  # of the next model, whose load fails
    assert not memory.came_back()


def test_cycles_are_sought_only_where_memory_did_not_come_back(
    collections: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    free, full = Held(ram=GIB), Held(ram=9 * GIB)
    assert came_back(free, full, free)
    assert not collections
    assert came_back(free, full, full, free)
    assert collections
    assert capsys.readouterr().err == ""
