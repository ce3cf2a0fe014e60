"""A ledger against a simple model, in any order of calls that Hypothesis can think of.

    class MyMachine(LedgerMachine):
        def make_ledger(self, folder, clock, lease):
            return MyLedger(folder / "my.ledger", clock=clock, lease=lease)

    TestMyMachine = MyMachine.TestCase

What it is held against is in `ledger_model`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from benchfleet.domain.attempt import Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.part import Split, Splits
from benchfleet.domain.state import FINAL_STATES, State
from benchfleet.errors import ClaimLost
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.history import attempts_by_cell
from benchfleet.ledger.table_copy import CopyableLedger

from .clock import FakeClock
from .ledger_model import LEASE, LedgerModel
from .sample_cells import sample_cell

CELLS = [  # one path holds another, two have equal names; models, needs and priorities differ
    sample_cell(0, model="a"),
    sample_cell(0, model="a", version="2", priority=1),
    sample_cell(0, model="a", version="3", repeats=True, repeat=1),
    sample_cell(1, model="b", gpus=1),
    sample_cell(2, model="b", gpus=1, vram=40, priority=1),
    sample_cell(3, model="c", gpus=2),
]
CELLS += Split.evenly(CELLS[-1].fingerprint, 1, 1, 2).cells(CELLS[-1])  # its parts
FINGERPRINTS = [cell.fingerprint for cell in CELLS]
OUTCOMES = [
    Outcome(state="success", digest="one"),
    Outcome(state="success", digest="two"),
    Outcome(state="failed"),
    Outcome(state="failed", charged=False, retry_in=0.0),
    Outcome(state="failed", retry_in=LEASE / 2),
]

some_cells = st.lists(st.sampled_from(CELLS), max_size=4)
any_fingerprint = st.sampled_from(FINGERPRINTS)


class LedgerMachine(RuleBasedStateMachine):
    """Derive from it, and run its `TestCase`."""

    leases = Bundle("leases")

    def make_ledger(self, folder: Path, clock: Callable[[], float], lease: float) -> Ledger:
        """The ledger of that folder: a fresh one where there is none yet."""
        raise NotImplementedError

    def open_again(self) -> Ledger:
        """The same store after its handle was closed; a ledger without a store is kept."""
        return self.ledger

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.clock = FakeClock()
        self.ledger = self.make_ledger(Path(self.folder.name), self.clock, LEASE)
        self.model = LedgerModel(now=self.clock)
        self.seen_events: list[Event] = []  # what the events were when they were looked at last
        self.final: dict[str, tuple[State, Outcome | None]] = {}

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.folder.cleanup()

    @rule(cells=some_cells, marked=st.booleans())
    def enroll(self, cells: list[Cell], marked: bool) -> None:
        paths = {cell.fingerprint: cell.path(marked=True) for cell in cells if marked}
        new = sum(self.model.enroll(cell, marked=marked) for cell in cells)
        assert self.ledger.enroll(cells, paths=paths) == new

    @rule(
        target=leases,
        runner=st.sampled_from([RunnerId("one"), RunnerId("two")]),
        candidates=st.lists(any_fingerprint, max_size=6),
        limit=st.integers(0, 3),
    )
    def claim(  # type: ignore[no-untyped-def]
        self, runner: RunnerId, candidates: list[str], limit: int
    ):
        claims = self.ledger.claim(runner, candidates, limit)
        expected = self.model.free(candidates)[:limit]
        assert [c.lease.fingerprint for c in claims] == [
            cell_model.cell.fingerprint for cell_model in expected
        ]
        for claim, cell_model in zip(claims, expected, strict=True):
            until = self.model.rights.get(claim.lease.fingerprint, 0.0)
            assert until <= self.clock.now, "two unexpired leases on one cell"
            assert claim.lease.token > cell_model.token
            assert (claim.path, claim.tries) == (cell_model.path, cell_model.tries)
            self.model.claim(claim.lease)
            assert claim.lease.attempt == cell_model.attempt
            assert claim.lease.expires_in == LEASE
        return multiple(*(claim.lease for claim in claims))

    @rule(ended=st.lists(st.tuples(leases, st.sampled_from(OUTCOMES)), max_size=3))
    def finish_all(self, ended: list[tuple[Lease, Outcome]]) -> None:
        refused = self.ledger.finish_all(ended)
        assert [one is None for one in refused] == [self.model.end(*one) for one in ended]

    @rule(lease=leases)
    def renew(self, lease: Lease) -> None:
        assert list(self.ledger.renew([lease])) == [lease] * self.model.renew(lease)

    @rule(lease=leases, outcome=st.sampled_from(OUTCOMES))
    def finish(self, lease: Lease, outcome: Outcome) -> None:
        with nullcontext() if self.model.end(lease, outcome) else pytest.raises(ClaimLost):
            self.ledger.finish(lease, outcome)

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        self.ledger.release([lease], "given back")
        self.model.release(lease)

    @rule(lease=leases, parts=st.integers(2, 3))
    def split(self, lease: Lease, parts: int) -> None:
        """By a runner that holds the lease, or that held it once."""
        split = Split.evenly(lease.fingerprint, lease.attempt, lease.token, parts)
        cell = self.model.cells[lease.fingerprint].cell
        self.ledger.record(split.event(split.cells(cell)))
        self.model.split(lease, parts)

    @rule()
    def reap(self) -> None:
        assert sorted(self.ledger.reap()) == sorted(self.model.reap())

    @rule(fingerprint=any_fingerprint)
    def ask_for_a_retry(self, fingerprint: str) -> None:
        self.ledger.record(Event(kind="retry_asked", fingerprint=fingerprint))
        self.final.pop(fingerprint, None)
        self.model.retry(fingerprint)

    @rule(fingerprint=any_fingerprint)
    def cancel(self, fingerprint: str) -> None:
        self.ledger.record(Event(kind="cancel_asked", fingerprint=fingerprint))
        self.model.cancel(fingerprint)

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def reopen(self) -> None:
        self.ledger = self.open_again()

    @invariant()
    def the_ledger_and_the_model_agree(self) -> None:
        whole = [name for name, one in self.model.cells.items() if not one.cell.part]
        assert [record.fingerprint for record in self.ledger.cells()] == whole
        records = list(self.ledger.cells(fingerprints=list(self.model.cells)))
        assert [record.fingerprint for record in records] == list(self.model.cells)
        for record in records:
            cell_model = self.model.cells[record.fingerprint]
            if record.state in FINAL_STATES:
                result = (record.state, record.outcome)
                assert self.final.setdefault(record.fingerprint, result) == result
            assert record.fingerprint not in self.final or record.state in FINAL_STATES
            assert record.token >= cell_model.token, "a token fell"
            cell_model.token = record.token
            assert (record.state, record.path) == (cell_model.state, cell_model.path)
            assert (record.attempt, record.tries) == (cell_model.attempt, cell_model.tries)
            assert record.outcome == cell_model.outcome
            expires_in = (
                cell_model.expires - self.clock.now if cell_model.state == "running" else None
            )
            assert record.expires_in == expires_in
            waits = cell_model.state == "pending" and cell_model.ready > self.clock.now
            assert record.ready_in == (cell_model.ready - self.clock.now if waits else 0.0)

    @invariant()
    def nothing_is_wrong_with_its_rows(self) -> None:
        if isinstance(self.ledger, CopyableLedger):
            assert not list(problems(self.ledger))

    @invariant()
    def the_events_tell_every_attempt(self) -> None:
        events = self.ledger.events()
        assert [e.seq for e in events] == sorted({e.seq for e in events})
        assert list(events[: len(self.seen_events)]) == self.seen_events, "recorded events changed"
        if self.seen_events:
            since, name = self.seen_events[-1].seq, self.seen_events[-1].fingerprint
            assert self.ledger.events(since) == events[len(self.seen_events) :]
            of_it = [event for event in events if event.fingerprint == name]
            assert self.ledger.events(fingerprints={name}) == of_it
        splits = Splits()
        splits.follow(events)
        in_force = {name: len(split.cuts) - 1 for name, split in splits.current.items()}
        assert in_force == {name: one.parts for name, one in self.model.cells.items() if one.parts}
        self.seen_events = list(events)
        seen_events = attempts_by_cell(events)
        for fingerprint, cell_model in self.model.cells.items():
            attempts = seen_events.get(fingerprint, [])
            assert [a.attempt for a in attempts] == list(range(1, cell_model.attempt + 1))
            outcomes = [a.outcome for a in attempts if a.outcome is not None]
            assert outcomes[-1:] == ([] if cell_model.outcome is None else [cell_model.outcome])
            under_way = [a.attempt for a in attempts if a.how == ""]
            assert under_way == [cell_model.attempt] * (cell_model.state == "running")
