"""How long a run should take, and how many cells fit at once."""

from __future__ import annotations

from benchfleet.domain.resource import Device
from benchfleet.planner.forecast import fit, wall_time
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.scheduler.duration_model import Expected
from benchfleet.testing.sample_cells import sample_cell

GB = 10**9


def _gpus(*memories: int, slots: int = 0) -> Pool:
    devices = tuple(
        Device(kind="gpu", index=place, memory=memory) for place, memory in enumerate(memories)
    )
    return Pool(devices=devices, slots=slots or len(devices))


def _cpus(slots: int) -> Pool:
    return Pool(
        devices=tuple(Device(kind="cpu", index=place) for place in range(slots)), slots=slots
    )


def test_cells_are_spread_over_the_slots_and_none_is_split() -> None:
    def seconds(*values: float) -> list[Expected]:
        return [Expected(seconds=value, like="same model", cells=1) for value in values]

    assert wall_time(seconds(4.0, 4.0, 4.0), [1.0, 2.0], 2) == 9.0
    assert wall_time(seconds(10.0, 1.0), [], 8) == 10.0


def _fit(pool: Pool, *sizes: int | None, ram: int = 0, cores: int = 64) -> tuple[int, str, int]:
    found = fit(pool, [(sample_cell(), size) for size in sizes], ram=ram, cores=cores)
    return found.slots, found.why, len(found.warnings)


def test_as_many_cells_share_gpus_as_the_largest_of_them_fits() -> None:
    assert _fit(_gpus(80 * GB, 24 * GB), *[10 * GB] * 20, 12 * GB) == (8, "bounded by memory", 0)


def test_no_more_run_at_a_time_than_there_are_cores_or_cells() -> None:
    pool = _gpus(80 * GB)
    assert _fit(pool, *[GB] * 100, cores=6) == (6, "bounded by the cores of the CPU", 0)
    assert _fit(pool, *[GB] * 3) == (3, "bounded by the cells left to run", 0)


def test_on_the_cpu_memory_bounds_the_slots_asked_for() -> None:
    assert _fit(_cpus(4), *[GB] * 9, ram=16 * GB) == (4, "bounded by the CPU slots", 0)
    assert _fit(_cpus(4), *[GB] * 9, ram=3 * GB) == (3, "bounded by memory", 1)


def test_cells_that_take_several_gpus_share_none() -> None:
    demands = [(sample_cell(gpus=2), GB), *[(sample_cell(), GB)] * 9]
    assert fit(_gpus(80 * GB, 80 * GB), demands, ram=0, cores=64).slots == 2


def test_what_is_unknown_gets_a_device_of_its_own() -> None:
    slots, why, warnings = _fit(_gpus(GB, GB), None, None, None)
    assert (slots, warnings) == (2, 0)
    assert why.startswith("bounded by the devices; what a cell takes of memory is unknown")
    assert _fit(_gpus(0, 0), *[GB] * 9)[0] == 2  # GPUs that do not say what they have


def test_more_at_a_time_than_fit_are_warned_of() -> None:
    demands = [(sample_cell(), 10 * GB)] * 9
    (warning,) = fit(_gpus(24 * GB, slots=3), demands, ram=0, cores=64).warnings
    assert warning == (
        "memory is short: 3 cells at a time may take 30.0 GB, and there are 24.0 GB on a GPU"
    )


def test_a_cell_too_large_for_its_device_is_warned_of() -> None:
    found = fit(_gpus(24 * GB), [(sample_cell(), 40 * GB)], ram=0, cores=64)
    assert found.slots == 1
    assert found.warnings == (
        "memory is short: one cell may take 40.0 GB, and there are 24.0 GB on a GPU",
    )


def test_with_nothing_left_nothing_is_suggested_but_what_was_asked() -> None:
    assert _fit(_cpus(3)) == (3, "no cell is left that takes a slot", 0)
