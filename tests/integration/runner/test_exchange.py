"""Short cells are finished by the next claim, where the ledger can do both at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Offer
from benchfleet.engines.base import Failed, Order, SlotEvent, SlotId
from benchfleet.errors import ClaimLost, LedgerAway, LedgerError, LedgerFull, LedgerUnreachable
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.runner.inbox import Interrupted
from benchfleet.runner.slots.place import Pool
from benchfleet.runner.space import PLENTY, Room
from stage import CPU, Stage, cells

from .timed import taking

ONE_SLOT = Pool(devices=CPU.devices[:1], slots=1)
MOMENT = 2.0  # seconds


class Exchanging(MemoryLedger):
    """A ledger that keeps when it was told of ends, and by which call."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(clock=stage.clock, lease=60)
        self.told: list[tuple[str, float]] = []
        self.errors: list[LedgerError] = []  # that the next exchanges raise
        self.refuses = 0  # exchanges, of which another has the cells by then
        self._inbox, self._how = stage.inbox, "finish"

    def exchange(
        self, ended: Sequence[tuple[Lease, Outcome]], runner: RunnerId, offer: Offer, limit: int
    ) -> tuple[Sequence[ClaimLost | None], Sequence[Claim]]:
        if self.errors:
            raise self.errors.pop()
        if self.refuses:
            self.refuses -= 1
            self.release([lease for lease, _ in ended], "somebody said so")
            self.claim(RunnerId("thief"), Offer(), len(ended))
        self._how = "exchange"
        try:
            return super().exchange(ended, runner, offer, limit)
        finally:
            self._how = "finish"

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        super().finish(lease, outcome)
        self.told.append((self._how, self._inbox.now() - self._inbox.began))


@pytest.fixture
def ledger(stage: Stage) -> Exchanging:
    stage.ledger = ledger = Exchanging(stage)
    stage.moment = MOMENT
    stage.engine.script = taking(1)
    return ledger


def published(stage: Stage) -> int:
    return sum(stage.layout.published(path).is_dir() for path in stage.states())


def written_every(stage: Stage, seconds: float) -> None:
    """What is to be written waits for the looks at the disk that are so far apart."""
    waiting: list[Callable[[], None]] = []
    last = [0.0]

    def room() -> Room:
        now = stage.inbox.now() - stage.inbox.began
        if now - last[0] >= seconds:
            last[0] = now
            while waiting:
                waiting.pop(0)()
        return PLENTY

    stage.background, stage.room = waiting.append, room


def test_what_ended_goes_with_the_next_claim(stage: Stage, ledger: Exchanging) -> None:
    end = stage.run(cells(4), ONE_SLOT)
    assert ledger.told == [("exchange", 1), ("exchange", 2), ("exchange", 3), ("finish", 4)]
    assert (end.seconds, end.progress.states, published(stage)) == (4, {"success": 4}, 4)
    assert stage.keeper.held() == []


def test_what_no_claim_takes_along_is_finished_a_moment_later(
    stage: Stage, ledger: Exchanging
) -> None:
    stage.engine.script = taking(50, 1)
    stage.run(cells(3))
    assert ledger.told == [("exchange", 1), ("finish", 1 + MOMENT), ("finish", 50)]
    assert published(stage) == 3


def test_what_takes_longer_does_not_wait(stage: Stage, ledger: Exchanging) -> None:
    stage.engine.script = taking(50, MOMENT)
    stage.run(cells(3))
    assert ledger.told == [("finish", MOMENT), ("finish", 2 * MOMENT), ("finish", 50)]


def test_a_failure_does_not_wait(stage: Stage, ledger: Exchanging) -> None:
    failure = Failure(stage="benchmark", kind="user_error", message="no")

    def failing(slot: SlotId, order: Order) -> list[tuple[float, SlotEvent]]:
        return [(1, Failed(slot=slot, attempt=order.attempt, failure=failure, seconds={}))]

    stage.engine.script = failing
    assert stage.run(cells(3), ONE_SLOT).progress.states == {"failed": 3}
    assert ledger.told == [("finish", 1), ("finish", 2), ("finish", 3)]


def test_nothing_waits_once_the_run_is_interrupted(stage: Stage, ledger: Exchanging) -> None:
    stage.engine.script = taking(50, 1)
    stage.inbox.post(Interrupted(signal="SIGINT"), after=2.5)
    end = stage.run(cells(3))
    assert ledger.told == [("exchange", 1), ("finish", 2.5)]
    assert end.progress.states == {"success": 2, "pending": 1}


def test_what_ends_after_an_interruption_does_not_wait(stage: Stage, ledger: Exchanging) -> None:
    stage.engine.script = taking(1.5, 1.25)
    stage.inbox.post(Interrupted(signal="SIGINT"), after=1.125)
    stage.run(cells(4))
    assert ledger.told == [("finish", 1.25), ("finish", 1.5)]


def test_what_an_exchange_refuses_is_not_published(stage: Stage, ledger: Exchanging) -> None:
    ledger.refuses = 1
    end = stage.run(cells(4), ONE_SLOT)
    (lost,) = stage.said("claim_lost")
    told = json.loads((stage.layout.published(lost.cell) / "cell.json").read_text())
    assert told["provenance"]["attempt"] == 3  # once the lease of the other had run out
    assert end.progress.states == {"success": 4}


@pytest.mark.parametrize("error", [LedgerAway("gone"), LedgerFull("full")])
def test_where_an_exchange_cannot_be_its_outcomes_are_finished_and_nothing_is_claimed(
    stage: Stage, ledger: Exchanging, error: LedgerError
) -> None:
    ledger.errors.append(error)
    end = stage.run(cells(4), ONE_SLOT)
    assert [how for how, _ in ledger.told] == ["finish", "exchange", "exchange", "finish"]
    assert (end.progress.states, published(stage)) == ({"success": 4}, 4)


def test_a_ledger_that_is_gone_ends_the_run_and_what_was_sealed_is_finished(
    stage: Stage, ledger: Exchanging
) -> None:
    ledger.errors.append(LedgerUnreachable("damaged"))
    with pytest.raises(LedgerUnreachable, match="damaged"):
        stage.run(cells(4), ONE_SLOT)
    assert ledger.told == [("finish", 1)]
    assert published(stage) == 1


def test_what_is_sealed_too_late_for_one_claim_goes_with_a_later_one(
    stage: Stage, ledger: Exchanging
) -> None:
    written_every(stage, 2.0)
    stage.engine.script = taking(0.9)
    stage.run(cells(6), ONE_SLOT)
    assert {how for how, _ in ledger.told[:4]} == {"exchange"}
    assert published(stage) == 6


def test_what_is_sealed_when_nothing_waits_any_more_is_finished_at_once(
    stage: Stage, ledger: Exchanging
) -> None:
    written_every(stage, 7.0)
    stage.engine.script = taking(50, 1)
    stage.run(cells(3))
    assert ledger.told[:2] == [("finish", 7), ("finish", 7)]
    assert published(stage) == 3
