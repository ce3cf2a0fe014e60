"""Handles of a real PostgreSQL server in random turns: what each claims is as good as anything."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.testing import sample_cell
from benchfleet.testing.ledger_model import LedgerModel

from .conftest import SUCCESS, finishes

AGAIN = Outcome(state="failed", retry_in=0.0)
HANDLES, CELLS, TURNS, MODELS = 3, 200, 900, "abc"
KEYS = [sample_cell(model=model).model.load_key for model in MODELS]


def some_cell(number: int, priority: int) -> Cell:
    needs = {"gpus": 1, "vram": number % 2 * 40} if number % 5 == 0 else {}
    return sample_cell(number, model=MODELS[number % 3], priority=priority, **needs)


def some_offer(chance: random.Random, choice: Choice) -> Offer:
    return Offer(
        gpus=chance.choice([0, 1]),
        vram=chance.choice([0, 40]),
        models={key: chance.choice([-1.0, 0.0, 0.5]) for key in KEYS if chance.random() < 0.4},
        others=chance.choice([None, 0.0, 0.0]),
        among=choice,
    )


@dataclass(eq=False)
class Side:
    """A handle, and what its runner holds and wants."""

    ledger: Any
    runner: RunnerId
    choice: Choice
    offer: Offer
    held: list[Claim] = field(default_factory=list)


class Play:
    """Does what `LedgerMachine` does with one handle, fast enough for them to share."""

    def __init__(self, chance: random.Random, ledgers: Sequence[Any]) -> None:
        self.chance, self.model, self.shared = chance, LedgerModel(now=lambda: 0.0), 0
        self.ended: Counter[str] = Counter()
        cells = [some_cell(n, n % 3) for n in range(CELLS)]
        self.enroll(ledgers[0], cells)
        self.sides = []
        for number, ledger in enumerate(ledgers):
            choice = Choice(cell.fingerprint for cell in cells if chance.random() < 0.95)
            offer = some_offer(chance, choice)
            self.sides.append(Side(ledger, RunnerId(f"runner-{number}"), choice, offer))

    def enroll(self, ledger: Any, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if self.model.enroll(cell, marked=False):
                continue
            known = self.model.known[cell.fingerprint]
            if known.state in ("pending", "running"):
                known.cell = cell
        ledger.enroll(cells)

    def place(self, offer: Offer, cell: Cell) -> tuple[int, float]:
        """How good a cell is; the smaller goes first, and of equal ones any."""
        assert offer.among is not None
        rank = offer.among.rank(cell.fingerprint) + (offer.weight(cell.model.load_key) or 0.0)
        return -cell.priority, rank

    def exchange(self, side: Side, offer: Offer, limit: int) -> None:
        over = [
            (claim.lease, SUCCESS if self.chance.random() < 0.97 else AGAIN) for claim in side.held
        ]
        for one in over:
            assert self.model.end(*one)
            self.ended[one[0].fingerprint] += 1
        best = sorted(self.place(offer, known.cell) for known in self.model.wanted(offer))
        refused, side.held = side.ledger.exchange(over, side.runner, offer, limit)
        assert not any(refused)
        assert [self.place(offer, claim.cell) for claim in side.held] == best[:limit]
        for claim in side.held:
            assert self.model.claim(claim.lease).attempt == claim.lease.attempt
        self.shared += bool(side.ledger._claiming._share._cells)

    def turn(self, side: Side) -> None:
        """One of the things that a fleet does, mostly an exchange."""
        chance, name = self.chance, self.chance.choice(list(self.model.known))
        number, other = chance.randrange(CELLS + 40), chance.choice(self.sides).ledger
        match chance.randrange(40):
            case 0 if side.held:  # over whichever handle
                lease = side.held.pop().lease
                other.release([lease], "given back")
                self.model.release(lease)
            case 1:
                side.ledger.record(Event(kind="retry_asked", fingerprint=name))
                self.model.retry(name)
            case 2:
                side.choice.put(name, chance.choice([-1.0, 0.0, 1.0]))
            case 3:
                side.choice.drop(name)
            case 4:
                side.offer = some_offer(chance, side.choice)
            case 5:
                self.enroll(side.ledger, [cell := some_cell(number, chance.randrange(4))])
                side.choice.put(cell.fingerprint)
            case 6 if side.held:
                lease = side.held.pop().lease
                assert self.model.end(lease, SUCCESS)
                self.ended[lease.fingerprint] += 1
                other.finish(lease, SUCCESS)
            case 7:
                self.exchange(side, some_offer(chance, side.choice), 1)
            case _:
                self.exchange(side, side.offer, chance.choice([1, 1, 1, 2, 5]))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_others_do_what_is_claimed_is_as_good_as_anything_that_waits(
    opened: Callable[..., Any], seed: int
) -> None:
    play = Play(random.Random(seed), [opened() for _ in range(HANDLES)])
    for number in range(TURNS):
        play.turn(play.sides[number % HANDLES])
    assert play.shared
    ledger = play.sides[0].ledger
    assert finishes(ledger) == play.ended
    for record in ledger.cells():
        known = play.model.known[record.fingerprint]
        assert (record.state, record.attempt) == (known.state, known.attempt)
