"""What each cell is in for, by the ledger and the machine."""

from __future__ import annotations

from dataclasses import replace

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device, Need
from benchfleet.domain.state import State
from benchfleet.planner.preview import Plan, planned, with_paths
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.sample_cells import sample_cell
from records import record_of

GB = 10**9
GPU = Pool(devices=(Device(kind="gpu", index=0, memory=24 * GB),), slots=1)


def _cell(number: int = 0, *, gpus: int = 0, vram: int = 0, version: str = "1") -> Cell:
    return sample_cell(
        benchmark="recall", subset=str(128 + number), gpus=gpus, vram=vram, version=version
    )


def _record(cell: Cell, state: State, path: str = "") -> CellRecord:
    outcome = Outcome(state="success", seconds={"load": 1.0, "benchmark": 4.0})
    found = outcome if state == "success" else None
    return record_of(cell, path=path or cell.id, state=state, outcome=found)


def _plan(
    cells: list[Cell],
    records: list[CellRecord],
    pool: Pool | None = GPU,
    *,
    endpoint_slots: int = 1,
) -> Plan:
    missing = "no GPU 7 here"
    return planned(
        cells, records, pool, missing=missing, ram=0, cores=8, endpoint_slots=endpoint_slots
    )


def test_what_ended_well_is_reused_and_what_ended_otherwise_is_not_run() -> None:
    cells = [_cell(number) for number in range(5)]
    states: list[State] = ["success", "failed", "partial", "running"]
    plan = _plan(cells, [_record(*pair) for pair in zip(cells, states, strict=False)])
    assert [row.state for row in plan.rows] == [
        "reused",
        "failed",
        "partial",
        "running",
        "pending",
    ]
    assert [row.cell for row in plan.to_run] == cells[3:]
    assert plan.counts == {
        "total": 5, "reused": 1, "cached": 0, "to_run": 2, "impossible": 0,
        "partial": 1, "failed": 1, "skipped": 0, "cancelled": 0,
    }  # fmt: skip


def test_the_time_is_that_of_the_cells_left() -> None:
    cells = [_cell(number) for number in range(3)]
    plan = _plan(cells, [_record(cells[0], "success")])
    assert (plan.seconds, plan.unknown) == (4.0 * 2 + 1.0, 0)
    assert _plan(cells, []).seconds is None
    assert _plan(cells, []).unknown == 3


def test_cells_on_endpoints_run_beside_those_in_slots() -> None:
    cells = [_cell(number) for number in range(3)]
    served = [replace(_cell(10 + number), need=Need(endpoint="lab:1")) for number in range(9)]
    done = [_record(cells[0], "success"), _record(served[0], "success")]
    plan = _plan([*cells, *served], done, endpoint_slots=2)
    assert plan.seconds == 4.0 * 8 / 2 + 1.0  # the cells in the slot end before, after 9 s
    assert plan.fit
    assert plan.fit.slots == 1


def test_a_cell_that_nothing_here_can_take_says_why_and_is_not_counted_in() -> None:
    plan = _plan([_cell(), _cell(1, gpus=2), _cell(2, vram=40 * GB)], [])
    assert [row.impossible for row in plan.rows] == [
        "",
        "needs 2 GPUs, this run has 1",
        "needs 40 GB of GPU memory, this run has 24.0",
    ]
    assert len(plan.to_run) == 1


def test_a_cell_that_is_done_needs_no_device_any_more() -> None:
    cell = _cell(gpus=2)
    assert _plan([cell], [_record(cell, "success")]).rows[0].impossible == ""


def test_without_the_devices_asked_for_nothing_runs() -> None:
    plan = _plan([_cell()], [], pool=None)
    assert plan.rows[0].impossible == "no GPU 7 here"
    assert (plan.to_run, plan.fit) == ([], None)


def test_declared_memory_goes_before_an_estimate() -> None:
    plan = _plan([_cell(number, gpus=1, vram=10 * GB) for number in range(5)], [])
    assert plan.fit is not None
    assert plan.fit.slots == 2


def test_a_path_is_the_one_that_enrolment_will_allot() -> None:
    first, second, other = _cell(version="1"), _cell(version="2"), _cell(1)
    paths = [one.path for one in with_paths([second, other], [_record(first, "success")])]
    assert paths == [second.path(marked=True), other.id]
    kept = [one.path for one in with_paths([first], [_record(first, "success", "its/own/path")])]
    assert kept == ["its/own/path"]


def test_a_path_never_lies_in_another_nor_holds_one() -> None:
    whole = sample_cell()
    repeat = sample_cell(version="2", repeats=True)
    inside = [one.path for one in with_paths([repeat], [_record(whole, "success")])]
    around = [one.path for one in with_paths([whole], [_record(repeat, "success")])]
    assert inside == [repeat.path(marked=True)]
    assert around == [whole.path(marked=True)]
