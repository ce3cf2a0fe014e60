"""The read model follows the ledger's events to the same cells that a fresh load gives."""

from __future__ import annotations

import random

import pytest

from benchfleet.dashboard.model import MAX_KEPT_CHANGES, ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.stream import message_since
from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.ledger.memory import MemoryLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.clock import FakeClock

CELLS = [
    sample_cell(number, config=config, repeat=repeat, repeats=True)
    for number in range(3)
    for config in ("dense", "sparse")
    for repeat in range(2)
]
FAILURE = Failure(stage="load", kind="oom", message="no memory left")
RUNNER = RunnerId("one")


def loaded(ledger: MemoryLedger) -> ReadModel:
    model = ReadModel("study")
    records = {record.fingerprint: record for record in ledger.cells()}
    model.load([(cell, records.get(cell.fingerprint)) for cell in CELLS], ())
    model.last_event = ledger.last_event()
    return model


def facts(model: ReadModel) -> list[tuple[object, ...]]:
    def of(row: Row) -> tuple[object, ...]:
        return (row.path, row.state, row.attempt, row.score, row.kind, row.host)

    return [of(row) for row in model.rows]


def totals(model: ReadModel) -> dict[object, object]:
    tiles: dict[object, object] = {
        key: (
            {state: count for state, count in tile.states.items() if count},
            tile.scores.count,
            tile.scores.headlines,
            tile.scores.averaged,
            round(tile.scores.total, 9),
            round(tile.scores.averaged_total, 9),
        )
        for key, tile in model.tiles.items()
    }
    for key, pair in model.pairs.items():
        states = {state: count for state, count in pair.states.items() if count}
        assert states == {s: n for s in pair.states if (n := _sum(model, key, s))}
    return {**tiles, "all": dict(model.counts), "running": sorted(model.running)}


def _sum(model: ReadModel, key: tuple[str, str], state: str) -> int:
    return sum(t.states.get(state, 0) for k, t in model.tiles.items() if k[:2] == key)


class Story:
    """Random acts of runners and people on a ledger."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = FakeClock()
        self.ledger = MemoryLedger(clock=self.clock, lease=60.0)
        self.ledger.enroll(CELLS)
        self.claims: list[Claim] = []

    def act(self) -> None:
        one = self.random.choice(
            (self.claim, self.claim, self.finish, self.finish, self.release, self.reap, self.ask)
        )
        one()

    def claim(self) -> None:
        wanted = self.random.sample([cell.fingerprint for cell in CELLS], 3)
        self.claims += self.ledger.claim(RUNNER, wanted, 2)

    def finish(self) -> None:
        if not self.claims:
            return
        claim = self.claims.pop(self.random.randrange(len(self.claims)))
        score = self.random.random()
        metrics = {"overall_score": score}
        if self.random.random() < 0.5:
            metrics |= {"samples": self.random.randrange(2, 9), "stderr": 0.1}
        outcome = self.random.choice(
            (
                Outcome(state="success", digest="d", metrics=metrics, host="lab1"),
                Outcome(state="failed", failure=FAILURE, host="lab2"),
                Outcome(state="failed", failure=FAILURE, retry_in=0.0),
                Outcome(state="partial", failure=FAILURE),
            )
        )
        self.ledger.finish_all([(claim.lease, outcome)])

    def release(self) -> None:
        self.ledger.release([claim.lease for claim in self.claims[:1]], "no room")

    def reap(self) -> None:
        self.clock.advance(self.random.choice((1, 61)))
        self.ledger.reap()

    def ask(self) -> None:
        kind = self.random.choice(("retry_asked", "cancel_asked"))
        cell = self.random.choice(CELLS)
        self.ledger.record(Event(kind=kind, fingerprint=cell.fingerprint))


@pytest.mark.parametrize("seed", range(20))
def test_events_lead_to_the_same_cells_as_a_fresh_load(seed: int) -> None:
    story = Story(seed)
    model = loaded(story.ledger)
    for _ in range(30):
        for _ in range(story.random.randrange(6)):
            story.act()
        model.apply(story.ledger.events(model.last_event))
        fresh = loaded(story.ledger)
        assert facts(model) == facts(fresh)
        assert totals(model) == totals(fresh)


def test_a_stream_tells_each_cell_once_with_its_last_state() -> None:
    ledger = MemoryLedger()
    ledger.enroll(CELLS)
    model = loaded(ledger)
    cursor = message_since(model, "")["cursor"]
    (claim,) = ledger.claim(RUNNER, [CELLS[4].fingerprint])
    model.apply(ledger.events(model.last_event))
    ledger.finish(claim.lease, Outcome(state="failed", failure=FAILURE))
    model.apply(ledger.events(model.last_event))
    message = message_since(model, cursor)
    assert message["cells"] == [[4, 5]]
    assert message["counts"]["failed"] == 1
    assert message["changed"]
    assert not message["reset"]
    again = message_since(model, message["cursor"])
    assert again["cells"] == []
    assert not again["changed"]


@pytest.mark.parametrize("cursor", ["", "other.5", "x", "..", f"{'9' * 40}.1"])
def test_an_unknown_cursor_resets_the_viewer(cursor: str) -> None:
    assert message_since(loaded(MemoryLedger()), cursor)["reset"]


def test_a_cursor_that_is_too_old_resets_the_viewer() -> None:
    ledger = MemoryLedger()
    ledger.enroll(CELLS)
    model = loaded(ledger)
    cursor = message_since(model, "")["cursor"]
    fingerprint = CELLS[0].fingerprint
    for number in range(MAX_KEPT_CHANGES + 1):
        kind = "cancel_asked" if number % 2 == 0 else "retry_asked"
        model.apply([Event(kind=kind, fingerprint=fingerprint, seq=model.last_event + 1, at=1.0)])
    assert message_since(model, cursor)["reset"]


def test_a_ledger_that_is_away_leaves_what_was_read_with_its_age() -> None:
    model = loaded(MemoryLedger())
    model.succeeded(0.0)
    model.failed("the server is away")
    model.failed("the server is still away")
    first = model.freshness.failing_since
    assert model.freshness.error == "the server is still away"
    assert model.freshness.read_at
    assert message_since(model, "")["error"] == "the server is still away"
    assert first == model.freshness.failing_since
    model.succeeded(0.0)
    assert not model.freshness.error


def test_a_cell_that_is_claimed_again_is_not_silent_before_its_lease_is_read() -> None:
    clock = FakeClock()
    ledger = MemoryLedger(clock=clock, lease=60.0)
    ledger.enroll(CELLS)
    fingerprint = CELLS[4].fingerprint
    ledger.claim(RUNNER, [fingerprint])
    clock.advance(61)
    model = loaded(ledger)
    assert model.lease_silence(fingerprint) > 60
    ledger.reap()
    ledger.claim(RunnerId("two"), [fingerprint])
    model.apply(ledger.events(model.last_event))
    assert model.running[fingerprint].runner == "two"
    assert model.lease_silence(fingerprint) == 0.0
