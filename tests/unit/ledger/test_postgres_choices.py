"""The order of chosen cells that nobody began, and the parts into which they fall."""

from __future__ import annotations

import pytest

from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.postgres.choices import ChosenCells, Lane, Part, Waiting

CELLS, LANES = 2000, 3
OFFER = Offer()
AT = {n: Lane(load_key=f"model-{n}", gpus=0, vram=0) for n in range(LANES)}


@pytest.fixture
def chosen() -> ChosenCells:
    choice = Choice(str(n) for n in range(CELLS))
    cells = ChosenCells(choice=choice, version=choice.version)
    cells.fill(Waiting(n, str(n), n % LANES, n // 7 % 2) for n in range(CELLS))
    return cells


@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_each_cell_is_in_one_of_the_parts_and_they_are_equally_large(
    chosen: ChosenCells, parts: int
) -> None:
    every = list(chosen.ordered(OFFER, AT))
    parted = [list(chosen.ordered(OFFER, AT, Part(n, parts))) for n in range(parts)]
    assert len(every) == CELLS
    assert sorted(key for part in parted for key in part) == sorted(every)
    assert all(abs(len(part) - CELLS / parts) < 5 for part in parted)


def test_a_part_is_in_the_order_of_all(chosen: ChosenCells) -> None:
    chosen.begun(range(0, CELLS, 3))
    every = chosen.first(OFFER, AT, CELLS)
    part = list(chosen.ordered(OFFER, AT, Part(1, 3)))
    assert list(chosen.ordered(OFFER, AT)) == every == sorted(every)
    assert part == [key for key in every if key in set(part)]
    assert 0 < len(part) < len(every)


def test_what_was_begun_waits_no_more(chosen: ChosenCells) -> None:
    chosen.begun([5])
    assert [chosen.waits(n) for n in (4, 5, CELLS)] == [True, False, False]
    assert 5 not in {key[2] for key in chosen.ordered(OFFER, AT)}


def test_what_was_begun_behind_a_cell_that_seems_to_wait_is_forgotten() -> None:
    many = 10_000
    choice = Choice(str(n) for n in range(many))
    chosen = ChosenCells(choice=choice, version=choice.version)
    chosen.fill(Waiting(n, str(n), n % LANES, 0) for n in range(many))
    chosen.begun(range(LANES, many - 10))
    assert len(list(chosen.ordered(OFFER, AT))) == LANES + 10
    assert sum(map(len, chosen._lanes.values())) == LANES + 10
    assert len(chosen.first(OFFER, AT, many)) == LANES + 10
