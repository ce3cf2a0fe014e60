"""Disks with little room, and disks that are full, in virtual time."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from benchfleet.domain.failure import Failure, Kind
from benchfleet.domain.limits import Limits
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    Failed,
    HostReady,
    SlotEvent,
    SlotId,
)
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.disk_guard import DiskSpace
from benchfleet.runner.events import Interrupted
from stage import Stage, cells, good

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_with_little_room_pauses_claims_and_nothing_else(stage: Stage) -> None:
    began = stage.clock()

    def disk_space() -> DiskSpace:
        tight = 5 <= stage.clock() - began < 300
        return DiskSpace(free=10**8 if tight else 10**11, total=10**12)

    stage.disk_space = disk_space
    end = stage.run(cells(6))
    assert end.progress.states == {"success": 6}
    assert 300 <= end.seconds < 340
    assert len(stage.warnings("left, less than 1.0 GB")) == 1
    assert len(stage.warnings("cells begin again")) == 1
    done = [notice.data["took"] for notice in stage.notices_of("cell_done")]
    assert done == [10.0] * 6


def test_the_floor_of_the_campaign_is_kept(stage: Stage) -> None:
    began = stage.clock()
    stage.disk_space = lambda: DiskSpace(
        free=(4 + (stage.clock() > began + 50)) * 10**9, total=10**12
    )
    with_floor = [replace(cell, limits=Limits(disk=5 * 10**9)) for cell in cells(1)]
    end = stage.run(with_floor)
    assert end.progress.states == {"success": 1}
    assert end.seconds > 50


def test_a_paused_run_ends_when_it_is_interrupted(stage: Stage) -> None:
    stage.disk_space = lambda: DiskSpace(free=0, total=10**12)
    stage.inbox.post(Interrupted(signal="SIGINT"), after=5000)
    end = stage.run(cells(2))
    assert end.interrupted
    assert end.progress.states == {"pending": 2}
    assert stage.engine.opened == []


@pytest.mark.parametrize("method", ["record", "stage", "__init__"])
def test_a_write_that_the_disk_refuses_costs_no_try_and_ends_no_run(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    real = getattr(AttemptFolder, method)
    began = stage.clock()
    refused: list[str] = []

    def refuses(self: AttemptFolder, *given: Any) -> Any:
        if stage.clock() - began < 200 and len(refused) < 50:
            refused.append(method)
            raise FULL
        return real(self, *given)

    monkeypatch.setattr(AttemptFolder, method, refuses)
    end = stage.run(cells(3))
    assert end.progress.states == {"success": 3}
    assert not end.broken
    assert 200 < end.seconds < 600
    assert len(refused) < 25
    assert {one.tries for one in stage.ledger.cells()} == {1}
    assert stage.warnings("the disk of the results is full")


def run_beside(stage: Stage, failure: Failure, *, fails_for: float) -> int:
    """Run sixty cells here and on lab1, where they fail for so many seconds; all succeed. How often
    a slot was opened on lab1."""
    stage.engine.far = ("lab1",)
    far = Device(kind="cpu", index=0, host="lab1")
    began = stage.clock()

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if stage.engine.specs[slot].host and stage.clock() - began < fails_for:
            return [(1, Failed(slot=slot, attempt=request.attempt, failure=failure))]
        return good(slot, request)

    stage.engine.script = script
    stage.inbox.post(HostReady(host="lab1", devices=(far,), slots=1, threads=1))
    assert stage.run(cells(60)).progress.states == {"success": 60}
    return [spec.host for spec in stage.engine.opened].count("lab1")


def test_a_full_disk_of_a_host_stops_that_host_alone(stage: Stage) -> None:
    failure = Failure(stage="benchmark", kind="disk_full", message="no room", retryable=True)
    assert run_beside(stage, failure, fails_for=100) == 3
    (output,) = stage.warnings("the disk of lab1 is full")
    assert "left alone" in output


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("disk_full", "the disk of lab1 is full"),
        ("error", "what the cell needs could not be sent to lab1"),
    ],
)
def test_a_host_that_takes_no_files_fails_no_cell_that_can_run_elsewhere(
    stage: Stage, kind: Kind, said: str
) -> None:
    failure = Failure(stage="provision", kind=kind, message="no room", retryable=True)
    assert 2 <= run_beside(stage, failure, fails_for=inf) < 6
    assert len(stage.warnings(said)) == 1
