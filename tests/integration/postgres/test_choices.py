"""What a runner may claim from, kept up to date, and how few rows a claim reads."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Choice, Offer
from benchfleet.testing import sample_cell
from postgres import Postgres

from .conftest import ME, SUCCESS


def test_a_choice_that_nobody_has_any_more_is_forgotten(opened: Callable[..., Any]) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(0)])
    among = Choice([sample_cell(0).fingerprint])
    assert ledger.claim(ME, Offer(among=among))
    kept = weakref.ref(among)
    del among
    gc.collect()
    assert kept() is None


def test_what_another_runner_gave_back_is_claimed_in_its_place(opened: Callable[..., Any]) -> None:
    mine, other = opened(), opened()
    cells = [sample_cell(n) for n in range(30)]
    mine.enroll(cells)
    among = Choice(cell.fingerprint for cell in cells)
    theirs = other.claim(RunnerId("other"), Offer(among=among), 5)
    assert mine.claim(ME, Offer(among=among))[0].cell == cells[5]
    other.release([theirs[3].lease], "given back")
    assert mine.claim(ME, Offer(among=among))[0].cell == cells[3]
    other.enroll([sample_cell(30, priority=5)])
    among.put(sample_cell(30).fingerprint)
    assert mine.claim(ME, Offer(among=among))[0].cell.priority == 5
    rest = mine.claim(ME, Offer(among=among), 100)
    assert [claim.cell for claim in rest] == cells[6:]


def test_a_choice_of_what_another_enrolled_since_is_claimed_from(
    opened: Callable[..., Any],
) -> None:
    mine, other = opened(), opened()
    first, second, third = (sample_cell(n, model=f"model-{n}") for n in range(3))
    mine.enroll([first])
    among = Choice([first.fingerprint])
    assert mine.claim(ME, Offer(among=among))[0].cell == first
    other.enroll([second, third])
    assert mine.claim(ME, Offer(among=Choice([second.fingerprint])))[0].cell == second
    among.put(third.fingerprint)
    assert mine.claim(ME, Offer(among=among))[0].cell == third


@pytest.mark.parametrize("crowd", ["pending", "too large", "waiting", "ended"])
@pytest.mark.parametrize("chosen", [False, True])
def test_a_claim_reads_as_few_rows_however_many_cannot_be_claimed(
    opened: Callable[..., Any], crowd: str, chosen: bool
) -> None:
    ledger = opened()
    many = [sample_cell(n, gpus=8 * (crowd == "too large")) for n in range(3000)]
    few = [sample_cell(n, config="few", gpus=1) for n in range(5)]
    ledger.enroll([*many, *few])
    if crowd in ("waiting", "ended"):
        retry = 1000.0 if crowd == "waiting" else None
        for claim in ledger.claim(ME, Offer(), 300):
            ledger.finish(claim.lease, Outcome(state="failed", retry_in=retry))
    among = Choice(cell.fingerprint for cell in (*many, *few)) if chosen else None
    offer = Offer(gpus=2, among=among)
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to set up what it keeps")
    ledger.record(Event(kind="looked"))
    with ledger._connections.one() as connection:
        before = _blocks(connection)
    (claim,) = ledger.claim(ME, offer)
    assert claim.cell in (*many, *few)
    with ledger._connections.one() as connection:
        assert _blocks(connection) - before < 400


@pytest.mark.parametrize("how", ["one", "several", "exchange"])
def test_a_claim_walks_through_no_table_where_half_have_ended_and_some_wait_again(
    opened: Callable[..., Any], postgres: Postgres, how: str
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell(n) for n in range(3000)])
    claims = ledger.claim(ME, Offer(), 1500)
    ledger.finish_all([(claim.lease, SUCCESS) for claim in claims])
    postgres.sql(f"analyze {ledger.schema}.cell; analyze {ledger.schema}.identity")
    offer = Offer(among=Choice(cell.fingerprint for cell in ledger.cells()))
    first, second = ledger.claim(ME, offer, 2)
    ledger.finish(first.lease, Outcome(state="failed", retry_in=1000.0))
    ledger.release([claim.lease for claim in ledger.claim(ME, offer)], "to learn what waits again")
    scans = (
        "select sum(seq_scan) from pg_stat_all_tables"  # noqa: S608
        f" where schemaname = '{ledger.schema}' and relname in ('cell', 'identity')"
    )
    with ledger._connections.one() as connection:
        _blocks(connection)
        before = postgres.sql(scans)
    if how == "exchange":
        assert len(ledger.exchange([(second.lease, SUCCESS)], ME, offer, 1)[1]) == 1
    else:
        assert len(ledger.claim(ME, offer, 1 if how == "one" else 3)) == (1 if how == "one" else 3)
    with ledger._connections.one() as connection:
        _blocks(connection)
        assert postgres.sql(scans) == before


def _blocks(connection: Any) -> int:
    """The pages that this connection's statements looked at in tables and indexes of its schema."""
    connection.execute("select pg_stat_force_next_flush()")
    row = connection.execute(
        "select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))"
        " from pg_statio_user_tables where schemaname = current_schema()"
    ).fetchone()
    return int(row[0] or 0)
