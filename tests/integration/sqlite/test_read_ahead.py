"""What a handle read before it claims: seldom where it is alone, never what is not so any more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.resource import Choice, Offer
from benchfleet.testing import sample_cell

from .conftest import CELLS, ME, SUCCESS, open_ledger

KEYS = [sample_cell(model=f"model-{n}").model.load_key for n in range(7)]


def names_of(claims: object) -> list[str]:
    return [claim.lease.fingerprint for claim in claims]  # type: ignore[attr-defined]


@pytest.mark.parametrize("chosen", [False, True])
def test_a_handle_alone_reads_many_cells_together_and_takes_them_in_their_order(
    tmp_path: Path, chosen: bool
) -> None:
    offer = Offer(among=Choice(cell.fingerprint for cell in CELLS) if chosen else None)
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        asked: list[str] = []
        ledger._connection.set_trace_callback(asked.append)
        claims = list(ledger.claim(ME, offer))
        for _ in CELLS[1:]:
            refused, more = ledger.exchange([(claims[-1].lease, SUCCESS)], ME, offer, 1)
            assert refused == [None]
            claims += more
        assert names_of(claims) == [cell.fingerprint for cell in CELLS]
    reads = [statement for statement in asked if "join spec" in statement]
    assert 7 < len(reads) < len(CELLS) / 5


def test_each_kind_of_offer_gets_the_best_of_its_own(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        for turn in range(10):
            for number, key in enumerate(KEYS):
                (claim,) = ledger.claim(ME, Offer(models={key: 0.0}, others=None))
                assert claim.lease.fingerprint == CELLS[7 * turn + number].fingerprint


def test_what_another_handle_gives_back_or_ends_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as mine, closing(open_ledger(path)) as other:
        mine.enroll(CELLS)
        mine.claim(ME, Offer(), 10)
        given_back = other.claim(ME, Offer(), 2)
        assert names_of(mine.claim(ME, Offer())) == [CELLS[12].fingerprint]
        other.release([claim.lease for claim in given_back], "it leaves")
        assert names_of(mine.claim(ME, Offer(), 3)) == [
            CELLS[number].fingerprint for number in (10, 11, 13)
        ]


def test_a_cell_is_not_claimed_again_for_another_choice(tmp_path: Path) -> None:
    offers = [
        Offer(among=Choice(cell.fingerprint for cell in cells))
        for cells in (CELLS[:60], CELLS[30:90], CELLS[:90])
    ]
    with closing(open_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.enroll(CELLS)
        claims = []
        while more := [claim for offer in (*offers, Offer()) for claim in ledger.claim(ME, offer)]:
            claims += more
        assert sorted(names_of(claims)) == sorted(cell.fingerprint for cell in CELLS)


def test_a_cell_that_was_ended_by_hand_is_passed_over(tmp_path: Path) -> None:
    """No event tells of it, so that a choice that was read before still has it."""
    path = tmp_path / "ledger.db"
    offer = Offer(among=Choice(cell.fingerprint for cell in CELLS[:14]))
    with closing(open_ledger(path)) as ledger:
        ledger.enroll(CELLS)
        ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "it looks first")
        with closing(sqlite3.connect(path)) as editor, editor:
            editor.execute("update cell set state = 'skipped' where ordinal in (1, 8, 2)")
        left = [
            cell.fingerprint for number, cell in enumerate(CELLS[:14]) if number not in (0, 7, 1)
        ]
        assert names_of(ledger.claim(ME, offer, 14)) == left
