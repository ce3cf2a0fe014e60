"""Cells that another runner holds, takes or gives back, in virtual time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.slots import BEGAN
from benchfleet.engines.base import (
    AttemptRequest,
    FileSent,
    SlotEvent,
    SlotId,
    SlotSpec,
)
from benchfleet.errors import LedgerAway
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.events import LeaseLost, LedgerChanged, RunnerEvent
from benchfleet.runner.progress import Notice, Progress
from benchfleet.testing.claims import claim_any
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good


def test_a_lost_lease_publishes_nothing(stage: Stage) -> None:
    def robbed(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            fingerprint, _, _ = request.attempt.partition("/")
            held = next(stage.ledger.cells(fingerprints={fingerprint}))
            stage.clock.advance(61)
            stage.ledger.reap()
            claim_any(stage.ledger, RunnerId("thief"), 1)
            assert held.state == "running"
        return good(slot, request)

    stage.engine.script = robbed
    stage.run(cells(1))
    assert stage.notices_of("claim_lost")
    (published,) = stage.folder.glob("tiny/*/*/cell.json")
    attempt = json.loads(published.read_text())["provenance"]["attempt"]
    assert attempt == 3  # ours after the thief's lease ran out, not the one that was robbed


def test_a_lease_lost_in_the_middle_ends_its_slot_and_publishes_nothing(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    runner = stage.runner(cells(1))
    held: list[Lease] = []

    def robbed(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if not held:
            (lease,) = stage.heartbeat.leases()
            held.append(lease)
            stage.ledger.release([lease], "taken away behind our back")
            (claim,) = claim_any(stage.ledger, RunnerId("thief"), 1)
            stage.inbox.post(LeaseLost(lease=lease), after=3)
            stage.thief = claim
        return good(slot, request)

    stage.engine.script = robbed
    runner.run()
    assert stage.notices_of("claim_lost")
    (record,) = stage.ledger.cells()
    assert (record.state, record.attempt) == ("success", 3)


def test_a_lease_that_was_lost_while_another_interpreter_started_begins_nothing(
    stage: Stage,
) -> None:
    stage.engine.start_takes = 30
    real = stage.engine.open

    def open_(spec: SlotSpec) -> None:
        if spec.python and not stage.thief:
            (lease,) = stage.heartbeat.leases()
            stage.ledger.release([lease], "taken away behind our back")
            (stage.thief,) = claim_any(stage.ledger, RunnerId("thief"), 1)
            stage.inbox.post(LedgerChanged())
        real(spec)

    stage.engine.open = open_  # type: ignore[method-assign]
    end = stage.run([sample_cell(0, python="/other/python")])
    assert end.progress.states == {"success": 1}
    assert stage.notices_of("claim_lost")
    (record,) = stage.ledger.cells()
    assert record.attempt == 3  # after the thief's lease ran out
    assert len(stage.engine.requests) == 1


def test_a_cell_that_ended_while_all_were_counted_is_not_counted_twice(stage: Stage) -> None:
    def robbed(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.heartbeat.leases()) == 2 and not stage.thief:
            lease = next(
                one for one in stage.heartbeat.leases() if one.fingerprint in request.attempt
            )
            stage.ledger.release([lease], "taken away behind our back")
            (stage.thief,) = claim_any(stage.ledger, RunnerId("thief"), 1)
            stage.inbox.post(LeaseLost(lease=lease), after=10)  # with the end of the other
            return good(slot, request)[:-1]
        return good(slot, request)

    def watched(notice: Notice, progress: Progress) -> None:
        if notice.kind == "cell_done":
            shown.append({state: count for state, count in progress.states.items() if count})

    shown: list[dict[str, int]] = []
    stage.engine.script, stage.watch = robbed, watched  # type: ignore[method-assign]
    stage.run(cells(2))
    assert shown[0] == {"success": 1, "running": 1}


def test_a_runner_that_only_waited_shows_how_all_ended(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    (claim,) = claim_any(stage.ledger, RunnerId("other"), 1)
    lost = LeaseLost(lease=claim.lease)  # nothing of ours: it only comes at that time
    stage.inbox.post(lost, after=1)

    def watched(notice: Notice, progress: Progress) -> None:
        if notice.kind == "waiting":
            stage.ledger.finish(claim.lease, Outcome(state="failed"))

    stage.watch = watched  # type: ignore[method-assign]
    end = stage.run(cells(1))
    assert (end.ran, end.progress.states) == (0, {"failed": 1})


class GoneAtTheEnd(MemoryLedger):
    """A ledger whose server goes away when the run ends."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self._stage, self.away = stage, False

    def cells(self, **named: Any) -> Iterator[CellRecord]:
        if self.away and self._stage.serving.is_set():
            raise LedgerAway("no answer")
        yield from super().cells(**named)


def test_the_last_counts_are_waited_for(stage: Stage) -> None:
    stage.ledger = ledger = GoneAtTheEnd(stage)
    ledger.enroll(cells(2))
    (claim,) = claim_any(ledger, RunnerId("other"), 1)
    stage.engine.shutdown = lambda: setattr(ledger, "away", True)  # type: ignore[method-assign]

    def watched(notice: Notice, progress: Progress) -> None:
        stage.notices.append(notice)
        if notice.cell and notice.kind == "waiting":
            ledger.finish(claim.lease, Outcome(state="failed"))

    stage.watch = watched  # type: ignore[method-assign]
    stage.inbox.post(LeaseLost(lease=claim.lease), after=20)  # nothing of ours: it comes then
    end = stage.run(cells(2))
    assert ledger.away
    assert (end.ran, end.progress.states) == (1, {"success": 1, "failed": 1})
    assert "the ledger's server" in stage.notices_of("waiting")[-1].message  # nobody wonders why
    assert stage.serving.is_set()


def test_what_comes_too_late_for_a_published_cell_leaves_nothing_behind(stage: Stage) -> None:
    def late(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if stage.thief is None:
            (lease,) = stage.heartbeat.leases()
            stage.ledger.release([lease], "taken away behind our back")
            (claim,) = claim_any(stage.ledger, RunnerId("thief"), 1)
            stage.ledger.finish(claim.lease, Outcome(state="success", digest="theirs"))
            shutil.rmtree(stage.layout.attempts)  # as theirs does once it is published
            stage.layout.published(claim.path).mkdir(parents=True)
            stage.thief = claim
        sent = FileSent(slot=slot, attempt=request.attempt, name="notes/a.txt", data=b"late")
        return [(1, sent), *good(slot, request)]

    stage.engine.script = late
    stage.run(cells(1))
    assert stage.notices_of("claim_lost")
    assert list(stage.layout.attempts.glob("*/*")) == []


class Slow:
    """A ledger after whose first claim its runner is stopped past the lease, while `meanwhile`
    happens."""

    def __init__(self, stage: Stage, meanwhile: Callable[[], None]) -> None:
        self._stage, self._ledger, self._meanwhile = stage, stage.ledger, meanwhile
        self._stopped = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        claims = self._ledger.claim(runner, candidates, limit)
        if claims and not self._stopped:
            self._stopped = True
            self._stage.slept += 61
            self._meanwhile()
        return claims


def test_a_lease_that_ran_out_before_its_attempt_began_is_noticed_before_a_slot_has_it(
    stage: Stage,
) -> None:
    def taken_over() -> None:
        stage.ledger.reap()
        (claim,) = claim_any(stage.ledger, RunnerId("thief"), 1)
        stage.ledger.finish(claim.lease, Outcome(state="success", digest="theirs"))
        stage.layout.published(claim.path).mkdir(parents=True)

    stage.renew_every = 12
    stage.ledger = Slow(stage, taken_over)  # type: ignore[assignment]
    end = stage.run(cells(1))
    assert stage.engine.requests == []
    assert stage.notices_of("claim_lost")
    assert (end.ran, end.progress.states) == (0, {"success": 1})
    assert list(stage.layout.attempts.glob("*/*")) == []


def test_a_runner_stopped_past_a_lease_that_nobody_took_goes_on_with_it(stage: Stage) -> None:
    stage.renew_every = 12
    stage.ledger = Slow(stage, lambda: None)  # type: ignore[assignment]
    stage.run(cells(1))
    assert len(stage.engine.requests) == 1
    (record,) = stage.ledger.cells()
    assert (record.state, record.attempt) == ("success", 1)


@pytest.mark.parametrize(("output", "begun"), [(True, 0.4), (False, 1.0)])
def test_cells_that_others_release_are_claimed_when_the_ledger_reports_them(
    stage: Stage, output: bool, begun: float
) -> None:
    stage.ledger.enroll(cells(1))
    (claim,) = claim_any(stage.ledger, RunnerId("other"), 1)

    stage.inbox.post(LeaseLost(lease=claim.lease), after=0.3)  # nothing of ours: it only comes
    take = stage.inbox.take

    def taken(wait: float) -> RunnerEvent | None:
        arrival = take(wait)
        if isinstance(arrival, LeaseLost):
            stage.ledger.release([claim.lease], "given back")
            if output:
                stage.inbox.post(LedgerChanged())
        return arrival

    stage.inbox.take = taken  # type: ignore[method-assign]
    end = stage.run(cells(1))
    assert end.progress.states == {"success": 1}
    assert end.seconds == pytest.approx(10 + begun)


def test_no_wait_is_reported_while_other_cells_are_free(stage: Stage) -> None:
    stage.ledger.enroll(cells(3))
    (held,) = claim_any(stage.ledger, RunnerId("other"), 1)
    stage.run(cells(3))
    (waits,) = stage.notices_of("waiting")
    assert waits.cell == held.path
    ended = [notice.kind for notice in stage.notices if notice.kind in ("cell_done", "waiting")]
    assert ended == ["cell_done", "cell_done", "waiting", "cell_done"]


def test_cells_held_by_another_runner_are_waited_for_and_taken_when_it_dies(stage: Stage) -> None:
    stage.ledger.enroll(cells(1))
    stage.ledger.record(Event(kind=BEGAN, data={"runner": "other", "host": "lab2"}))
    claim_any(stage.ledger, RunnerId("other"), 1)
    end = stage.run(cells(1))
    assert end.progress.states == {"success": 1}
    assert end.seconds >= 60
    (waits,) = stage.notices_of("waiting")
    assert waits.cell == "tiny/dense/benchmark-0"
    assert waits.message == (
        "runner other on lab2 holds it, lease good for 1 min 00 s; "
        "if it is dead: benchfleet release … --runner other"
    )
    (back,) = stage.notices_of("warning")
    assert back.cell == waits.cell  # by its name
    assert back.message == "the lease of its runner expired; the cell is pending again"
