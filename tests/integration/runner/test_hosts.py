"""The runner's loop where hosts come, are lost and come back, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from benchfleet.cli.text.notices import sentence
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    AttemptRequest,
    Failed,
    HostLost,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotQuiet,
)
from benchfleet.runner.attempt.retry_policy import MAX_FREE_HOST_LOSSES
from benchfleet.runner.progress import Notice, Progress
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage, cells, good, sample

from .fleets import NOWHERE, host_of, host_ready, lost_with


def test_hosts_take_their_part_from_when_they_are_reached(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 2), after=5)
    stage.inbox.post(host_ready("lab2", 2), after=12)
    end = stage.run(cells(6), NOWHERE)
    assert end.progress.states == {"success": 6}
    assert end.seconds == pytest.approx(25)
    ran = [host_of(stage, slot) for slot, _ in stage.engine.requests]
    assert ran == ["lab1", "lab1", "lab2", "lab2", "lab1", "lab1"]
    assert {record.outcome.host for record in stage.ledger.cells() if record.outcome} == {
        "lab1",
        "lab2",
    }


def test_cells_of_a_lost_host_go_elsewhere_at_once_after_their_last_sample(stage: Stage) -> None:
    def loses_the_first(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if host_of(stage, slot) == "lab1":
            stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=5.5)
            return [(4, sample(request, slot, 0)), (5, lost_with(slot))]
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("lab1", "lab2"), loses_the_first
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("lab2"), after=2)
    end = stage.run(cells(1, tries=1), NOWHERE)
    assert end.progress.states == {"success": 1}
    assert [host_of(stage, slot) for slot, _ in stage.engine.requests] == ["lab1", "lab2"]
    (failed,) = stage.notices_of("cell_failed")
    assert failed.data["retry_in"] == 0
    assert "host_lost" in failed.message
    assert sentence(failed).startswith(f"✗ {failed.cell} on lab1  ")
    assert sentence(failed).endswith("; again")
    (lost,) = stage.notices_of("slot_lost")
    assert sentence(lost).startswith(f"! slot {lost.slot} on lab1 ended: ")
    assert sentence(lost).endswith("; another takes its place")
    assert end.seconds == pytest.approx(15)
    (record,) = stage.ledger.cells()
    sealed = json.loads((stage.layout.published(record.path) / "cell.json").read_text())
    assert sealed["provenance"]["resumed_samples"] == 1
    assert sealed["provenance"]["attempt"] == 2


def its_connection_breaks(stage: Stage, *, slots: int) -> None:
    """The connection to a host breaks during the first cell and returns later."""

    def breaks_once(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            stage.inbox.post(host_ready("lab1", slots), after=8)
            return [(3, lost_with(slot))]
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("lab1",), breaks_once
    stage.inbox.post(host_ready("lab1", slots))


def test_nothing_is_opened_on_a_host_whose_connection_broke_until_it_answers(
    stage: Stage,
) -> None:
    its_connection_breaks(stage, slots=1)
    end = stage.run(cells(1), NOWHERE)
    assert end.progress.states == {"success": 1}
    assert end.seconds == pytest.approx(18)
    assert len(stage.engine.opened) == 2
    assert len(stage.notices_of("host_ready")) == 1
    assert stage.notices_of("host_lost") == []


def test_a_host_that_is_ready_twice_has_no_more_devices_than_once(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1"))
    stage.inbox.post(host_ready("lab1"), after=1)
    end = stage.run(cells(2), NOWHERE)
    assert end.seconds == pytest.approx(20)
    assert len(stage.notices_of("host_ready")) == 1


def test_devices_left_out_stay_so_while_their_host_is_only_doubted(stage: Stage) -> None:
    its_connection_breaks(stage, slots=2)
    stage.engine.dead_devices = {1}
    end = stage.run(cells(4), NOWHERE)
    assert end.progress.states == {"success": 4}
    starts = [spec.devices[0].index for spec in stage.engine.opened]
    assert starts.count(1) <= 4  # three, and one when the host was reachable again


def test_a_silent_slot_is_named_with_its_host(stage: Stage) -> None:
    def is_silent(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        return [(1, SlotQuiet(slot=slot, ended_at=60)), *good(slot, request)]

    stage.engine.far, stage.engine.script = ("lab1",), is_silent
    stage.inbox.post(host_ready("lab1"))
    stage.run(cells(1), NOWHERE)
    (warning,) = stage.warnings("sends nothing")
    assert " on lab1 sends nothing; " in warning


def test_a_host_that_is_lost_and_comes_back_is_used_again(stage: Stage) -> None:
    """And the campaign's history has it."""

    def loses_it(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=3.5)
            stage.inbox.post(host_ready("lab1"), after=100)
            return [(3, lost_with(slot))]
        return good(slot, request)

    stage.engine.far, stage.engine.script = ("lab1",), loses_it
    stage.inbox.post(host_ready("lab1"))
    end = stage.run(cells(2), NOWHERE)
    assert end.progress.states == {"success": 2}
    kinds = [n.kind for n in stage.notices if n.kind in {"host_ready", "host_lost", "slot_lost"}]
    assert kinds == ["host_ready", "slot_lost", "host_lost", "host_ready"]
    output = [e for e in stage.ledger.events() if e.kind.startswith("host_")]
    assert [e.kind for e in output] == ["host_ready", "host_lost", "host_ready"]
    assert output[0].data == {"host": "lab1", "slots": 1, "devices": "lab1/cpu:0"}
    assert output[1].data == {"host": "lab1", "reason": "it is off", "hopeless": False}


@pytest.mark.parametrize("after", [2.5, 3])  # between two looks, and when one is due
def test_a_run_whose_hosts_are_all_hopeless_ends_at_once_and_claims_nothing(
    stage: Stage, after: float
) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="no key", hopeless=True))
    stage.inbox.post(HostLost(host="lab2", reason="no Python", hopeless=True), after=after)
    end = stage.run(cells(2), NOWHERE)
    assert end.broken == "no machine can be used (lab1: no key; lab2: no Python)"
    assert end.seconds == pytest.approx(after)
    assert end.progress.states == {"pending": 2}
    assert stage.notices_of("cell_started") == stage.notices_of("blocked") == []


def test_a_run_waits_for_a_host_that_may_come_but_not_for_ever(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"))
    end = stage.run(cells(1), NOWHERE)
    assert end.broken == ("no machine came within 600 s (lab1: it is off; lab2: not reached yet)")
    assert 600 <= end.seconds < 605
    assert end.progress.states == {"pending": 1}


def test_the_progress_names_the_hosts_that_are_away_and_since_when(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2", "lab3")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=4)
    stage.inbox.post(HostLost(host="lab2", reason="no key", hopeless=True), after=5)
    stage.inbox.post(host_ready("lab3"), after=7.5)
    output: list[dict[str, float]] = []

    def look(notice: Notice, progress: Progress) -> None:
        if notice.kind in ("host_lost", "host_ready"):
            output.append({host: at - began for host, at in progress.awaited.items()})

    stage.watch, began = look, stage.clock()  # type: ignore[method-assign]
    assert stage.run(cells(1), NOWHERE).progress.states == {"success": 1}
    away = {"lab1": 0.0, "lab3": 0.0}
    assert output == [{**away, "lab2": 0.0}, away, {"lab1": 0.0}]


def test_hosts_that_stay_away_end_no_run_that_can_go_on_here(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(HostLost(host="lab1", reason="it is off"))
    end = stage.run(cells(4))
    assert end.progress.states == {"success": 4}
    assert end.seconds == pytest.approx(20)


def test_what_cannot_run_here_waits_for_a_host_that_may_have_the_device(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1", gpus=1), after=40)
    end = stage.run([sample_cell(0), sample_cell(1, gpus=1)])
    assert end.progress.states == {"success": 2}
    assert end.impossible == ()
    assert end.seconds == pytest.approx(50)


def test_what_no_host_can_run_is_named_once_all_have_been_reached(stage: Stage) -> None:
    stage.engine.far = ("lab1",)
    stage.inbox.post(host_ready("lab1"), after=2)
    end = stage.run([sample_cell(0), sample_cell(1, gpus=1)])
    assert end.progress.states == {"success": 1, "pending": 1}
    ((_, why),) = end.impossible
    assert why == "needs 1 GPU, the largest machine (this one) has 0"
    (blocked,) = stage.notices_of("blocked")  # while the other cell was run
    assert f"{sample_cell(1, gpus=1).id}: {why}" in blocked.message


def test_what_waits_for_a_busy_gpu_keeps_no_other_machine_from_work(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", gpus=1))
    stage.inbox.post(host_ready("lab2"), after=1)
    wanting = [sample_cell(number, gpus=1) for number in range(3)]
    end = stage.run([*wanting, sample_cell(3)], NOWHERE)
    assert end.progress.states == {"success": 4}
    assert end.seconds == pytest.approx(30)
    hosts = {cell: host_of(stage, slot) for slot, cell in stage.engine.requests}
    assert [hosts[cell] for cell in sorted(hosts)] == ["lab1", "lab1", "lab1", "lab2"]


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_claim_kept_for_a_slot_of_another_interpreter_is_let_go_when_its_host_is_lost(
    stage: Stage, ends_well: bool
) -> None:
    """Whether the slot that makes room for it had ended before its host was lost, or not."""

    def close(slot: SlotId) -> None:
        stage.engine.close = stage.engine.kill = was  # type: ignore[method-assign]
        (other,) = [spec.slot for spec in stage.engine.opened if spec.slot != slot]
        stage.inbox.post(lost_with(other))
        stage.inbox.post(
            SlotLost(slot=slot, reason="exit code 0", expected=True, exit_code=0)
            if ends_well
            else lost_with(slot)
        )
        stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=0.5)

    was = stage.engine.close
    stage.engine.close = stage.engine.kill = close  # type: ignore[method-assign]
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 2))
    stage.inbox.post(host_ready("lab2"), after=30)
    end = stage.run([sample_cell(0), sample_cell(1, python="/other/python")], NOWHERE)
    assert end.progress.states == {"success": 2}
    assert {record.runner for record in stage.ledger.cells()} == {""}
    assert len(stage.notices_of("host_lost")) == 1


def test_idle_slots_here_do_not_keep_a_run_waiting_for_ever_for_a_host(stage: Stage) -> None:
    """The one cell that is left needs a GPU, which a host that stays away may have."""
    stage.engine.far = ("lab",)
    end = stage.run([*cells(1), sample_cell(9, gpus=1)], CPU)
    assert end.progress.states == {"success": 1, "pending": 1}
    assert "no machine came" in end.broken


def test_a_cell_that_ends_its_host_each_time_fails_after_the_free_ones(stage: Stage) -> None:
    def loses_it(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        stage.inbox.post(host_ready("lab1"), after=2)
        return [(1, lost_with(slot))]

    stage.engine.far, stage.engine.script = ("lab1",), loses_it
    stage.inbox.post(host_ready("lab1"))
    end = stage.run(cells(1, tries=1), NOWHERE)
    assert end.progress.states == {"failed": 1}
    assert len(stage.engine.requests) == MAX_FREE_HOST_LOSSES + 1


def test_runners_that_were_stopped_are_no_lost_hosts(stage: Stage) -> None:
    """Many gave the cell back; the first host that it loses is the first."""
    wanted = cells(1)
    stage.ledger.enroll(wanted)
    for _ in range(12):
        (claim,) = claim_any(stage.ledger, RunnerId("other"))
        stage.ledger.release([claim.lease], "SIGTERM")

    def loses_its_host_once(
        slot: SlotId, request: AttemptRequest
    ) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) > 1:
            return good(slot, request)
        lost = Failure(stage="benchmark", kind="host_lost", message="it is off")
        return [(1, Failed(slot=slot, attempt=request.attempt, failure=lost))]

    stage.engine.script = loses_its_host_once
    assert stage.run(wanted).progress.states == {"success": 1}
    (finished, _) = [e for e in stage.ledger.events() if e.kind == "finished"]
    assert finished.data["outcome"]["charged"] is False
