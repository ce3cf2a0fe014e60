"""Memory that grows from cell to cell is reported by name; caches that fill up are not."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.telemetry import GpuReading, Reading
from benchfleet.slot.leaks import REPLACE_BYTES, Leaks

MIB, GIB = 2**20, 2**30


def ram(size: int) -> Reading:
    return Reading(at=0.0, ram=size)


def gpu(device: int, own: int | None = None) -> Reading:
    return Reading(at=0.0, gpus=(GpuReading(index=0, memory=device, own=own),))


def leak_messages(leaks: Leaks, readings: Sequence[Reading], loaded: str = "model") -> list[str]:
    return [one for r in readings for one in leaks.after(loaded, r, lambda r=r: r)]  # type: ignore[misc]


def leaks() -> Leaks:
    return Leaks(tidy=lambda: None)


def test_ram_that_grows_with_every_cell_is_reported_once_and_again_when_it_doubled() -> None:
    found = leaks()
    output = leak_messages(found, [ram(GIB + n * 100 * MIB) for n in range(14)])
    assert len(output) == 2
    assert output[0].startswith(
        "RAM of the slot grows from cell to cell: 0.5 GiB more after 6 cells"
    )
    assert not found.too_much


def test_past_its_limit_a_leak_takes_the_slot_with_it() -> None:
    found = leaks()
    leak_messages(found, [ram(n * 500 * MIB) for n in range(10)])
    assert found.too_much
    assert found.grown > REPLACE_BYTES


def test_the_slots_own_gpu_memory_is_looked_at_before_the_devices() -> None:
    output = leak_messages(leaks(), [gpu(n * GIB, own=GIB) for n in range(10)])
    assert output == []
    (own, *_) = leak_messages(leaks(), [gpu(40 * GIB, own=n * 200 * MIB) for n in range(10)])
    assert own.startswith("GPU memory of the slot grows")
    (device, *_) = leak_messages(leaks(), [gpu(n * 200 * MIB) for n in range(10)])
    assert "which is not split by process" in device


def test_a_cache_that_fills_up_is_no_leak() -> None:
    filled = [GIB, 3 * GIB, 5 * GIB, 6 * GIB, *[6 * GIB] * 20]
    assert leak_messages(leaks(), [ram(size) for size in filled]) == []


def test_memory_that_comes_and_goes_is_no_leak() -> None:
    assert leak_messages(leaks(), [ram((1 + n % 3) * GIB) for n in range(30)]) == []


def test_what_can_be_freed_is_no_leak() -> None:
    tidied = []
    found = Leaks(tidy=lambda: tidied.append(True))
    for n in range(20):
        assert found.after("model", ram(n * 100 * MIB), lambda: ram(0)) == []
    assert tidied


def test_another_model_begins_again() -> None:
    found = leaks()
    for n in range(20):
        assert leak_messages(found, [ram(n * GIB)], loaded=f"model {n // 4}") == []
