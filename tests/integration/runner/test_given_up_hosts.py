"""Cells whose machine an engine gave up end with its reason; others are not touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchfleet.domain.attempt import CellRecord, Claim, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.hardware import Hardware, MachineHardware
from benchfleet.domain.resource import Device
from benchfleet.engines.base import HostAwaited, HostLost
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.resources.shapes import Pool
from stage import Stage, cells

NO_MACHINE = Failure(stage="provision", kind="ssh_failed", message="5 rentals failed")
NONE = Pool(devices=(), slots=0)
AWAITED = HostAwaited(host="r4090", reason="looked for", bounded=True)
GIVEN_UP = HostLost(
    host="r4090", reason="5 rentals failed", hopeless=True, removed=True, failure=NO_MACHINE
)


def given_up(folder: Path) -> Stage:
    stage = Stage(folder)
    stage.engine.far = ("r4090",)
    stage.inbox.post(AWAITED)
    stage.inbox.post(GIVEN_UP, after=5.0)
    return stage


def test_cells_that_no_machine_can_take_end_with_the_reason(tmp_path: Path) -> None:
    stage = given_up(tmp_path)
    end = stage.run(cells(2), pool=NONE)
    assert set(stage.states().values()) == {"failed"}
    for record in stage.ledger.cells():
        assert record.outcome is not None
        assert record.outcome.reason == NO_MACHINE
        assert record.tries == 0  # none is used up
    assert "5 rentals failed" in end.broken
    assert len(stage.notices_of("cell_failed")) == 2


class CancellingLedger(MemoryLedger):
    """Somebody cancels each first cell of a claim before it ends."""

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        claims = super().claim(runner, candidates, limit)
        for claim in claims[:1]:
            self.record(Event(kind="cancel_asked", fingerprint=claim.lease.fingerprint))
        return claims


def test_a_cell_that_is_cancelled_meanwhile_stays_cancelled(tmp_path: Path) -> None:
    stage = given_up(tmp_path)
    stage.ledger = CancellingLedger(clock=stage.clock)
    stage.run(cells(2), pool=NONE)
    assert sorted(stage.states().values()) == ["cancelled", "failed"]
    assert len(stage.notices_of("cell_failed")) == 1


def test_each_cell_ends_with_the_reason_of_its_own_hardware(tmp_path: Path) -> None:
    names = {"small": "RTX 4090", "large": "A100", "nobody's": "H200"}
    kinds = [Hardware(name=name, gpu=gpu) for name, gpu in names.items()]
    stage = Stage(tmp_path)
    stage.engine.far = ("small", "large")
    for name, kind in (("small", "ssh_failed"), ("large", "no_capacity")):
        why = Failure(stage="provision", kind=kind, message=name)  # type: ignore[arg-type]
        machine = MachineHardware(gpus=(names[name],), provider="vast")
        stage.inbox.post(replace(AWAITED, host=name, machines=(machine,)))
        stage.inbox.post(replace(GIVEN_UP, host=name, failure=why), after=5.0)
    chosen = [
        replace(cell, need=replace(cell.need, hardware=(one,)))
        for cell, one in zip(cells(3), kinds, strict=True)
    ]
    end = stage.run(chosen, pool=NONE)
    reasons = [r.outcome and r.outcome.reason and r.outcome.reason.message for r in records(stage)]
    assert reasons == ["small", "large", None]  # the last one is no business of either
    assert [record.state for record in records(stage)] == ["failed", "failed", "pending"]
    assert chosen[2] in [cell for cell, _ in end.impossible]


def records(stage: Stage) -> list[CellRecord]:
    return sorted(stage.ledger.cells(), key=lambda record: record.path)


def test_cells_that_another_machine_can_take_run_there(tmp_path: Path) -> None:
    stage = given_up(tmp_path)
    few, small = cells(1), Pool(devices=(Device(kind="gpu", index=0, memory=24 << 30),), slots=1)
    large = cells(2, gpus=1, vram=80 << 30)[1:]
    stage.run([*few, *large], pool=small)
    assert sorted(stage.states().values()) == ["failed", "success"]


def test_cells_are_left_to_other_runners_that_are_at_work(tmp_path: Path) -> None:
    stage = given_up(tmp_path)
    both = cells(2)
    stage.ledger.enroll(both)
    stage.ledger.claim(RunnerId("another"), [both[0].fingerprint])
    stage.run(both, pool=NONE)
    assert sorted(stage.states().values()) == ["pending", "running"]
