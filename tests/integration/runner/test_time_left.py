"""The time that is left of a run, and the type of device that it goes by, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import Device, Need
from benchfleet.engines.base import AttemptRequest, HostLost, HostReady, SlotEvent, SlotId
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.resources.shapes import Pool
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage, cells

from .fleets import NOWHERE
from .timed import GB, ended_before, lasting, taking


def test_the_time_left_is_printed_with_its_spread_and_counts_reused_cells_as_done(
    stage: Stage,
) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(12)]
    ended_before(stage, repeats[:4], {})
    output: list[tuple[float, float]] = []

    def look(notice: Notice, progress: Progress) -> None:
        left = progress.seconds_left(stage.clock())
        if left is not None:
            output.append((stage.clock() - began, left))

    stage.watch = look  # type: ignore[method-assign]
    began = stage.clock()
    stage.engine.script = lasting({})
    end = stage.run(repeats, CPU)
    assert end.progress.reused == 4
    for at, left in output:
        assert left == pytest.approx(end.seconds - at, abs=3)
    assert len(output) > 8


@pytest.mark.parametrize(("served", "seconds"), [(2, 40), (6, 60)])
def test_cells_that_ask_a_server_elsewhere_run_beside_those_in_slots(
    stage: Stage, served: int, seconds: int
) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(12)]
    ended_before(stage, repeats[:4], {})
    elsewhere = [
        replace(repeats[0], repeat=100 + n, need=Need(endpoint="lab:1")) for n in range(served)
    ]
    output: list[float] = []

    def look(notice: Notice, progress: Progress) -> None:
        if (left := progress.seconds_left(stage.clock())) is not None:
            output.append(left + stage.clock() - began)

    stage.watch = look  # type: ignore[method-assign]
    began = stage.clock()
    stage.engine.script = lasting({})
    end = stage.run([*repeats, *elsewhere], CPU)
    assert end.seconds == pytest.approx(seconds, abs=3)
    assert output[0] == pytest.approx(seconds, abs=3)


def test_the_time_left_knows_that_other_runners_share_the_work(stage: Stage) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(12)]
    ended_before(stage, repeats[:4], {})
    stage.ledger.enroll(repeats)
    claim_any(stage.ledger, RunnerId("other"), 2)
    output: list[float] = []

    def look(notice: Notice, progress: Progress) -> None:
        if (left := progress.seconds_left(stage.clock())) is not None:
            output.append(left)

    stage.watch = look  # type: ignore[method-assign]
    stage.engine.script = lasting({})
    stage.run(repeats, CPU)
    assert output[0] == pytest.approx((8 * 10 - 2 * 4) / 4, abs=3)  # four slots for eight cells


def _times_left(stage: Stage, repeats: Sequence[Cell], pool: Pool) -> list[float | None]:
    """The time left at each notice of the run."""
    output: list[float | None] = []

    def look(notice: Notice, progress: Progress) -> None:
        if notice.kind != "run_ended":
            output.append(progress.seconds_left(stage.clock()))

    stage.watch = look  # type: ignore[method-assign]
    stage.run(repeats, pool)
    return output


def test_a_cell_over_its_time_leaves_the_time_open_and_never_at_zero(stage: Stage) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(5)]
    ended_before(stage, repeats[:4], {repeats[0].workload.name: 0.2})
    stage.engine.script = lasting({})  # 10 s
    output = _times_left(stage, repeats, CPU)
    assert output[-1] is None
    assert 0.0 not in output


def test_a_cell_over_its_time_does_not_hide_that_of_many_that_wait(stage: Stage) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(24)]
    ended_before(stage, repeats[:4], {})
    stage.engine.script = taking(14.0, 10.0)
    assert None not in _times_left(stage, repeats, CPU)[8:-8]


def test_the_time_is_open_while_cells_wait_and_no_slot_takes_them(stage: Stage) -> None:
    repeats = [sample_cell(repeat=number, repeats=True) for number in range(5)]
    ended_before(stage, repeats[:4], {})
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=4)
    stage.inbox.post(HostLost(host="lab2", reason="it is off"), after=40)
    output = _times_left(stage, repeats, NOWHERE)
    assert len(output) > 2
    assert set(output) == {None}


def on_two_types(stage: Stage, seconds: Mapping[str, float], cells: Sequence[Cell]) -> None:
    """Cells of one kind, for one slot here and three of another type in a lab: each takes as long
    as its device's type says, as two did before."""
    stage.keeps, stage.renew_every, stage.engine.far = False, 20.0, ("lab",)

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        device = stage.engine.specs[slot].devices[0]
        return lasting({request.cell.workload.name: seconds[device.type]})(slot, request)

    stage.engine.script = script
    lab = tuple(Device(kind="gpu", index=n, name="slow", memory=GB, host="lab") for n in range(3))
    stage.inbox.post(HostReady(host="lab", devices=lab, slots=3, threads=1, provenance={}))
    known = [replace(cells[0], repeat=100 + n) for n in range(4)]
    stage.ledger.enroll(known)
    claims = claim_any(stage.ledger, RunnerId("before"), 4)
    for claim, (name, takes) in zip(claims, [*seconds.items()] * 2, strict=True):
        spent = {"benchmark": takes}
        outcome = Outcome(state="success", digest="d", seconds=spent, device_type=name)
        stage.ledger.finish(claim.lease, outcome)


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_time_left_knows_how_fast_each_type_of_device_is(stage: Stage, gpus: int) -> None:
    wanted = [sample_cell(repeat=n, repeats=True, gpus=gpus) for n in range(60)]
    local_host = "cpu" if gpus else "fast"  # what needs a GPU is done by the others alone
    on_two_types(stage, {local_host: 10.0, "slow": 60.0}, wanted)
    output: list[tuple[float, float, float]] = []

    def look(notice: Notice, progress: Progress) -> None:
        if progress.eta is not None and len(progress.slots) == 4 - gpus:
            now = stage.clock()
            left = progress.seconds_left(now) or 0.0
            output.append((now - began, left, progress.eta.spread))

    stage.watch, began = look, stage.clock()  # type: ignore[method-assign]
    pool = Device(kind="gpu", index=0, name="fast", memory=GB)
    end = stage.run(wanted, Pool(devices=(CPU.devices[0] if gpus else pool,), slots=1))
    assert end.progress.states == {"success": 60}
    for at, left, spread in output:
        assert left == pytest.approx(end.seconds - at, abs=45)
        assert spread < 60 or at < 120  # until enough cells ended
    assert len(output) > 50


def test_a_result_keeps_the_type_of_its_device(stage: Stage, tmp_path: Path) -> None:
    device = Device(kind="gpu", index=0, name="NVIDIA H100", memory=80 * GB)
    stage.run(cells(1, gpus=1), Pool(devices=(device,), slots=1))
    (record,) = stage.ledger.cells()
    assert record.outcome is not None
    assert record.outcome.device_type == "NVIDIA H100"
    again = replace(record.outcome, device_type="")
    assert "device_type" not in again.to_dict()
    assert Outcome.from_dict(record.outcome.to_dict()) == record.outcome
