"""Interrupting a run and cancelling its cells, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.cli.text.notices import sentence
from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Device
from benchfleet.engines.base import (
    AttemptRequest,
    HostLost,
    HostReady,
    SlotEvent,
    SlotId,
    SlotLost,
    Started,
    Stopped,
)
from benchfleet.errors import ClaimLost, LedgerFull
from benchfleet.runner.events import Interrupted
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.worker_options import STOP_GRACE_S
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import CPU, Stage, cells, good


def test_one_interrupt_keeps_samples_gives_cells_back_and_ends(stage: Stage) -> None:
    stage.inbox.post(Interrupted(signal="SIGINT"), after=6)
    end = stage.run(cells(4))
    assert end.interrupted
    assert end.progress.states.get("pending") == 4
    assert len(stage.engine.requests) == 2
    assert {notice.data["samples"] for notice in stage.notices_of("cell_released")} == {1}
    assert claim_any(stage.ledger, RunnerId("other"), 9)


def test_two_interrupts_end_at_once(stage: Stage) -> None:
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    stage.inbox.post(Interrupted(signal="SIGINT"), after=1)
    stage.inbox.post(Interrupted(signal="SIGINT"), after=2)
    end = stage.run(cells(2))
    assert end.interrupted
    assert end.seconds < 4
    assert end.progress.states.get("pending") == 2


def test_a_run_that_ends_promises_nothing_of_the_hosts_that_it_loses(stage: Stage) -> None:
    def loses_it(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        stage.inbox.post(Interrupted(signal="SIGINT"), after=1)
        stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=3)
        lost = SlotLost(slot=slot, reason="its connection broke", host_lost=True)
        return [(0, Started(slot=slot, attempt=request.attempt, stage="benchmark")), (2, lost)]

    stage.engine.far, stage.engine.script = ("lab1",), loses_it
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    devices = (Device(kind="cpu", index=0, host="lab1"),)
    stage.inbox.post(HostReady(host="lab1", devices=devices, slots=1, threads=1))
    stage.run(cells(1), Pool(devices=(), slots=0))
    (lost,), (failed,) = stage.notices_of("slot_lost"), stage.notices_of("cell_failed")
    assert sentence(lost) == f"! slot {lost.slot} on lab1 ended: its connection broke"
    assert sentence(failed).endswith(
        "(its slot ended: its connection broke); again in the next run"
    )


def test_an_interrupt_while_a_slot_starts_for_a_cell_begins_nothing(stage: Stage) -> None:
    stage.inbox.post(Interrupted(signal="SIGINT"), after=0.5)
    stage.engine.start_takes = 5.0
    end = stage.run([sample_cell(2, model="kv", python="envs/kv/bin/python")])
    assert end.interrupted
    assert stage.engine.requests == []
    assert claim_any(stage.ledger, RunnerId("other"), 1)


def cancels(stage: Stage, cell: Cell) -> None:
    stage.ledger.record(Event(kind="cancel_asked", fingerprint=cell.fingerprint))


def test_a_cancelled_cell_stops_after_the_sample_at_hand_and_keeps_its_slot(stage: Stage) -> None:
    wanted = cells(3)

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        events = good(slot, request)
        if "benchmark-0" in request.cell.id:
            cancels(stage, wanted[0])
            return events[:2]  # it answers once, and goes on for ever
        return events

    stage.engine.script = script
    one_slot = Pool(devices=CPU.devices[:1], slots=1)
    end = stage.run(wanted, one_slot)
    assert end.progress.states == {"success": 2, "cancelled": 1}
    assert len(stage.engine.opened) == 1
    assert end.seconds < 24
    assert stage.notices_of("claim_lost") == []
    (output,) = stage.notices_of("cell_cancelled")
    assert output.cell.endswith("benchmark-0")
    stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))
    stage.engine.script = good
    assert stage.run(wanted, one_slot).progress.states["success"] == 3


def test_samples_of_a_cancelled_cell_serve_its_next_attempt(stage: Stage) -> None:
    wanted = cells(1)
    handed: list[int] = []

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        handed.append(request.recorded.count(b"\n"))
        return good(slot, request)

    stage.engine.script = script
    stage.engine.stop = lambda slot, attempt: stage.inbox.post(  # type: ignore[method-assign]
        Stopped(slot=slot, attempt=attempt, reason="asked to"), after=0.1
    )
    seen = stage.watch

    def watch(notice: Notice, progress: Progress) -> None:
        seen(notice, progress)
        if notice.kind == "cell_progress" and [s.done for s in progress.slots.values()] == [1]:
            cancels(stage, wanted[0])

    stage.watch = watch  # type: ignore[method-assign]
    assert stage.run(wanted).progress.states == {"cancelled": 1}
    (output,) = stage.notices_of("cell_cancelled")
    assert output.data["samples"] == 1
    stage.watch = seen  # type: ignore[method-assign]
    stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))
    stage.run(wanted)
    assert handed == [0, 1]


def test_a_cancelled_cell_that_does_not_stop_is_ended(stage: Stage) -> None:
    wanted = cells(1)

    def hangs(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        cancels(stage, wanted[0])
        return []

    stage.engine.script = hangs
    stage.engine.stop = lambda slot, attempt: None  # type: ignore[method-assign]
    end = stage.run(wanted)
    assert end.progress.states == {"cancelled": 1}
    assert STOP_GRACE_S < end.seconds < STOP_GRACE_S + 10


def test_a_cell_cancelled_while_it_ends_is_not_published(stage: Stage) -> None:
    wanted = cells(1)

    def script(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        cancels(stage, wanted[0])
        done = good(slot, request)[-1][1]
        return [(0.5, done)]

    stage.engine.script = script
    end = stage.run(wanted)
    assert end.progress.states == {"cancelled": 1}
    assert list(stage.folder.glob("tiny/*/*/cell.json")) == []
    assert [n.kind for n in stage.notices if n.kind.startswith("c") and n.cell][-1] == (
        "cell_cancelled"
    )


def test_pending_cells_that_are_cancelled_are_not_begun(stage: Stage) -> None:
    wanted = cells(4)
    stage.ledger.enroll(wanted)
    for cell in wanted[1:]:
        cancels(stage, cell)
    end = stage.run(wanted)
    assert end.progress.states == {"success": 1, "cancelled": 3}
    assert len(stage.engine.requests) == 1


def test_a_cell_that_hangs_when_cancelled_is_ended_though_it_was_asked_for_again(
    stage: Stage,
) -> None:
    wanted = cells(1)

    def hangs_once(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) > 1:
            return good(slot, request)
        cancels(stage, wanted[0])
        return []

    def asked_again(slot: SlotId, attempt: str) -> None:
        stage.ledger.record(Event(kind="retry_asked", fingerprint=wanted[0].fingerprint))

    stage.engine.script = hangs_once
    stage.engine.stop = asked_again  # type: ignore[method-assign]
    end = stage.run(wanted, Pool(devices=CPU.devices[:1], slots=1))
    assert end.progress.states == {"success": 1}
    assert len(stage.engine.requests) == 2


def test_an_interrupt_while_the_ledger_has_no_room_gives_the_cell_back(stage: Stage) -> None:
    def full(ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        raise LedgerFull

    stage.ledger.finish_all = full  # type: ignore[method-assign]
    stage.engine.script = lambda slot, request: [
        *good(slot, request)[:-1],
        (9.2, good(slot, request)[-1][1]),
    ]
    runner = stage.runner(cells(1))
    stage.inbox.post(Interrupted(signal="SIGINT"), after=9)
    end = runner.run()
    assert end.interrupted
    assert len(stage.notices_of("cell_released")) == 1
    assert stage.notices_of("run_ended")


def test_nothing_is_waited_for_any_more_when_the_slots_are_ended(stage: Stage) -> None:
    seen: list[bool] = []
    stage.engine.shutdown = lambda: seen.append(stage.ending.is_set())  # type: ignore[method-assign]
    stage.run(cells(1))
    assert seen == [True]
