"""A handle's share of cells, and what becomes of it when the server is away."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.errors import LedgerAway
from benchfleet.ledger.postgres.choices import ChosenCells, Lane, Waiting
from benchfleet.ledger.postgres.shares import Asked, Share

ME = RunnerId("me")
SMALL, LARGE = Lane(load_key="a", gpus=0, vram=0), Lane(load_key="b", gpus=0, vram=80)


class Server:
    """Tells of many at work, while it is there: so many are in a hurry for seconds."""

    away = False

    def answer(self, name: str, values: object) -> list[tuple[bytes | None, ...]]:
        if self.away:
            raise LedgerAway("the server does not answer")
        return [(json.dumps([str(n) for n in range(1000)]).encode(), None, None)]


def test_a_share_that_could_not_be_looked_up_is_not_that_of_the_offer_before() -> None:
    server: Any = Server()
    choice = Choice(str(n) for n in range(100))
    chosen = ChosenCells(choice=choice, version=choice.version)
    chosen.fill(Waiting(n, str(n), n % 2, 0) for n in range(100))
    share, lanes = Share(server, None), {0: SMALL, 1: LARGE}

    def claim(vram: int) -> list[int]:
        share.claims()
        return [*share.next(Asked(ME, chosen, Offer(vram=vram), lanes, 4))]

    while not (first := claim(80)):
        pass  # at the first claim there is no hurry yet
    assert any(ordinal % 2 for ordinal in first)
    server.away = True
    with pytest.raises(LedgerAway):
        claim(0)
    server.away = False
    assert not any(ordinal % 2 for ordinal in claim(0))


def test_what_could_not_be_taken_stays_in_the_share_until_it_is_known_to_have_begun() -> None:
    server: Any = Server()
    choice = Choice(str(n) for n in range(100))
    chosen = ChosenCells(choice=choice, version=choice.version)
    chosen.fill(Waiting(n, str(n), 0, 0) for n in range(100))
    asked = Asked(ME, chosen, Offer(), {0: SMALL}, 1)
    share = Share(server, None)
    while True:
        share.claims()
        if first := [*share.next(asked)]:
            break
    share.claims()
    assert share.next(asked) == first
    chosen.begun(first[:1])
    share.claims()
    assert share.next(asked) == first[1:]
