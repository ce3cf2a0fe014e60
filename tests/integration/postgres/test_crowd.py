"""Several who claim short cells of one choice at once from a real PostgreSQL server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.testing import sample_cell
from postgres import Postgres

SUCCESS = Outcome(state="success", digest="abc")
RUNNERS = 4


def work(ledger: PostgresLedger, offer: Offer, name: str, batch: int = 1, most: int = 10**6) -> int:
    """Claims and ends at once, until nothing is left or so many have ended; how many have."""
    runner, ended = RunnerId(name), 0
    claims = ledger.claim(runner, offer, batch)
    while claims:
        over = [(claim.lease, SUCCESS) for claim in claims]
        ended += len(over)
        if ended >= most:
            assert not any(ledger.finish_all(over))
            return ended
        refused, claims = ledger.exchange(over, runner, offer, batch)
        assert not any(refused)
    return ended


def crowd(ledger: PostgresLedger) -> int:
    return ledger._claiming._share.runners


@pytest.mark.parametrize("batch", [1, 10])
def test_those_who_claim_at_once_take_each_cell_once_and_the_most_urgent_first(
    opened: Callable[..., Any], batch: int
) -> None:
    cells = [sample_cell(n, priority=n % 2) for n in range(1600)]
    ledgers = [opened() for _ in range(RUNNERS)]
    ledgers[0].enroll(cells)
    offer, seen, ended = (
        Offer(among=Choice(c.fingerprint for c in cells)),
        set[int](),
        [0] * RUNNERS,
    )
    meeting = threading.Barrier(RUNNERS)

    def run(number: int) -> None:
        meeting.wait(60)
        while some := work(ledgers[number], offer, f"runner-{number}", batch, most=100):
            ended[number] += some
            seen.add(crowd(ledgers[number]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(RUNNERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(ended) == len(cells)
    assert max(seen) > 1  # they met, and shared
    urgent = {cell.fingerprint for cell in cells if cell.priority}
    claimed = [event.fingerprint for event in ledgers[0].events(kinds=["claimed"])]
    assert len(claimed) == len(set(claimed)) == len(cells)
    early = [name for name in claimed[: len(urgent)] if name not in urgent]
    assert len(early) < 2 * RUNNERS * batch  # while the last urgent ones were being claimed


def test_the_share_of_whoever_went_away_is_claimed_by_the_others(
    opened: Callable[..., Any],
) -> None:
    cells = [sample_cell(n) for n in range(600)]
    mine, other = opened(), opened()
    mine.enroll(cells)
    offer, ended = Offer(among=Choice(cell.fingerprint for cell in cells)), 0
    held = list(other.claim(RunnerId("other"), offer))
    while crowd(mine) < 2 and ended < 300:
        ended += work(mine, offer, "me", most=1)
        over = [(claim.lease, SUCCESS) for claim in held]
        _, held = other.exchange(over, RunnerId("other"), offer, 1)
        ended += len(over)
    assert crowd(mine) == 2  # they met, and share
    assert ended + work(mine, offer, "me") + len(held) == len(cells)


def test_what_is_given_back_and_more_urgent_is_claimed_before_what_is_left_of_a_share(
    opened: Callable[..., Any],
) -> None:
    cells = [sample_cell(n, priority=int(n == 0)) for n in range(600)]
    mine, other, third = opened(), opened(), opened()
    mine.enroll(cells)
    offer = Offer(among=Choice(cell.fingerprint for cell in cells))
    (urgent,) = third.claim(RunnerId("third"), offer)
    held = {mine: mine.claim(RunnerId("me"), offer), other: other.claim(RunnerId("you"), offer)}
    for _ in range(100):
        for ledger, name in ((mine, "me"), (other, "you")):
            over = [(claim.lease, SUCCESS) for claim in held[ledger]]
            _, held[ledger] = ledger.exchange(over, RunnerId(name), offer, 1)
        if mine._claiming._share._cells:
            break
    assert crowd(mine) == 2
    assert mine._claiming._share._cells
    third.release([urgent.lease], "it leaves")
    (claim,) = mine.claim(RunnerId("me"), offer)
    assert claim.cell.fingerprint == urgent.cell.fingerprint


def test_a_look_at_who_is_at_work_reads_only_what_ended_since_however_much_ended(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    ledger = opened()
    ledger.enroll([sample_cell()])
    ledger.finish_all([(claim.lease, SUCCESS) for claim in ledger.claim(RunnerId("me"), Offer())])
    postgres.sql(
        f"set search_path to {ledger.schema};"  # noqa: S608
        " insert into ended (number, seq, at, ordinal, attempt, token, runner, outcome)"
        " select 100 + n, 100 + n, 0, 1, 1, 1, 'you', '{}' from generate_series(1, 50000) as n;"
        " analyze ended"
    )
    read = (
        "select sum(seq_tup_read + idx_tup_fetch) from pg_stat_all_tables"  # noqa: S608
        f" where schemaname = '{ledger.schema}' and relname = 'ended'"
    )
    before = int(postgres.sql(read))
    with ledger._connections.one() as connection:
        ((_, ended, _),) = connection.answer("crowd", [b"50098", None, b"1"])
        connection.execute("select pg_stat_force_next_flush()")
    assert len(ended.split(b",")) == 2
    assert int(postgres.sql(read)) - before < 10
