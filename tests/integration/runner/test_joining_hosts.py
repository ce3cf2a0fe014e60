"""Hosts that join a run unannounced or leave it for good, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchfleet.engines.base import AttemptRequest, HostAwaited, HostLost, SlotEvent, SlotId
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good, sample

from .fleets import NOWHERE, host_of, host_ready, lost_with


def test_a_host_that_nobody_knew_takes_its_part_from_when_it_joins(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("node-7"), after=5)
    end = stage.run(cells(4), NOWHERE)
    assert end.progress.states == {"success": 4}
    ran = [host_of(stage, slot) for slot, _ in stage.engine.requests]
    assert ran == ["lab1", "node-7", "lab1", "node-7"]


def test_cells_of_a_host_that_left_for_good_go_to_one_that_joins_and_no_try_is_charged(
    stage: Stage,
) -> None:
    def leaves(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if host_of(stage, slot) == "node-1":
            stage.inbox.post(HostAwaited(host="cluster", reason="no node is left"), after=5.5)
            stage.inbox.post(HostLost(host="node-1", reason="it left", removed=True), after=5.5)
            stage.inbox.post(host_ready("node-2"), after=30)
            stage.inbox.post(HostLost(host="cluster", reason="a node came", removed=True), after=30)
            return [(4, sample(request, slot, 0)), (5, lost_with(slot))]
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("node-1",), leaves
    stage.inbox.post(host_ready("node-1"))
    end = stage.run(cells(2, tries=1), NOWHERE)
    assert end.progress.states == {"success": 2}
    ran = [host_of(stage, slot) for slot, _ in stage.engine.requests]
    assert ran == ["node-1", "node-2", "node-2"]
    hosts = [n.data["host"] for n in stage.notices if n.kind in {"host_ready", "host_lost"}]
    assert hosts == ["node-1", "node-1", "node-2"]


def test_a_run_does_not_wait_for_a_host_that_left_for_good(stage: Stage) -> None:
    stage.engine.far = ("node-1",)
    stage.inbox.post(HostLost(host="node-1", reason="it left", removed=True), after=3)
    end = stage.run(cells(2), NOWHERE)
    assert end.broken == "no machine can be used (node-1: it left)"
    assert end.seconds == pytest.approx(3)


def test_a_slot_lost_late_does_not_bring_a_host_back_that_left_for_good(stage: Stage) -> None:
    def leaves(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if host_of(stage, slot) == "node-1":
            stage.inbox.post(HostLost(host="node-1", reason="it left", removed=True), after=4.5)
            return [(5, lost_with(slot))]
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("node-1", "node-2"), leaves
    stage.inbox.post(host_ready("node-1"))
    stage.inbox.post(host_ready("node-2"))
    needs = [sample_cell(0), sample_cell(1, gpus=1)]
    end = stage.run(needs, NOWHERE)
    assert end.progress.states == {"success": 1, "pending": 1}
    assert end.seconds < 60  # it did not wait for node-1
