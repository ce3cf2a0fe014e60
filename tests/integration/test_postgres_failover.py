"""The PostgreSQL ledger where a standby takes over from a server that is gone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.errors import LedgerAway
from benchfleet.ledger.fsck import problems
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres
from states import done, states

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")

WORKER = """
import sys
from benchfleet.domain.attempt import Outcome
from benchfleet.ledger.postgres.ledger import PostgresLedger

ledger = PostgresLedger(sys.argv[1], campaign="study", lease=2.0)
while left := [cell.fingerprint for cell in ledger.cells(states=["pending", "running"])]:
    while claims := ledger.claim(sys.argv[2], left):
        ledger.finish(claims[0].lease, Outcome(state="success", digest=sys.argv[2]))
        print(claims[0].lease.fingerprint, flush=True)
    ledger.reap()
"""


@pytest.fixture
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A server, and a standby that follows it some moments behind."""
    primary = Postgres(synced=True)
    primary.start()
    standby = primary.standby()
    try:
        standby.start()
        yield primary, standby
    finally:
        primary.remove()
        standby.remove()


def either(primary: Postgres, standby: Postgres) -> str:
    """The address of whichever of them takes writes."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://bench@{hosts}/postgres?target_session_attrs=read-write"


def opened(url: str, **options: Any) -> Any:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    return closing(PostgresLedger(url, campaign="study", **options))


def until(server: Postgres, asked: str, answer: str) -> None:
    for _ in range(600):
        if server.sql(asked) == answer:
            return
        time.sleep(0.05)
    pytest.fail(f"never {answer}: {asked}")


def follow(primary: Postgres, standby: Postgres) -> None:
    """Wait until the standby has all that the other committed."""
    reached = primary.sql("select pg_current_wal_lsn()")
    until(standby, f"select pg_last_wal_replay_lsn() >= '{reached}'", "t")


def lag(standby: Postgres) -> None:
    """Let it hear no more of the other."""
    standby.sql("alter system set primary_conninfo = ''")
    standby.sql("select pg_reload_conf()")
    until(standby, "select count(*) from pg_stat_wal_receiver", "0")


def test_nothing_is_lost_where_a_standby_that_was_waited_for_takes_over(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, standby = pair
    primary.sql("alter system set synchronous_standby_names = '*'")
    primary.sql("select pg_reload_conf()")
    until(primary, "select count(*) from pg_stat_replication where sync_state = 'sync'", "1")
    cells = [sample_cell(n) for n in range(600)]
    with opened(either(*pair)) as ledger:
        ledger.enroll(cells)
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, either(*pair), str(number)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        try:
            while done(ledger) < 100:
                time.sleep(0.02)
            primary.stop(crash=True)
            standby.sql("select pg_promote()")
            output = [worker.communicate(timeout=100)[0] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
        wanted = {cell.fingerprint: 1 for cell in cells}
        assert [worker.returncode for worker in workers] == [0, 0]
        assert Counter(e.fingerprint for e in ledger.events(kinds=["finished"])) == wanted
        assert not Counter("".join(output).split()) - Counter(wanted)
        assert list(problems(ledger)) == []


def test_what_a_standby_never_heard_of_is_done_again(pair: tuple[Postgres, Postgres]) -> None:
    """The next runner claims a cell that had ended there."""
    primary, standby = pair
    cells = [sample_cell(n) for n in range(30)]
    names = [cell.fingerprint for cell in cells]
    with opened(either(*pair)) as ledger, opened(either(*pair)) as other:
        ledger.enroll(cells)
        follow(primary, standby)
        lag(standby)
        for handle in (ledger, other) * 10:
            (claim,) = handle.claim(ME, names)
            handle.finish(claim.lease, SUCCESS)
        (held,) = ledger.claim(ME, names)
        primary.stop(crash=True)
        standby.sql("select pg_promote()")
        while claims := other.claim(ME, names, 3):
            for claim in claims:
                other.finish(claim.lease, SUCCESS)
        assert states(ledger)["success"] == len(cells)
        assert list(problems(ledger)) == []
        assert ledger.renew([held.lease]) == []


def test_a_claim_that_a_standby_gave_another_is_no_longer_the_first_one_s(
    pair: tuple[Postgres, Postgres],
) -> None:
    """Both have the same number: only one of them is renewed."""
    primary, standby = pair
    with opened(either(*pair)) as ledger, opened(either(*pair)) as other:
        ledger.enroll([sample_cell(0)])
        follow(primary, standby)
        lag(standby)
        (first,) = claim_any(ledger, ME)
        primary.stop(crash=True)
        standby.sql("select pg_promote()")
        (second,) = claim_any(other, RunnerId("you"))
        assert first.lease.token == second.lease.token
        assert ledger.renew([first.lease]) == []
        assert [lease.token for lease in other.renew([second.lease])] == [second.lease.token]


def test_a_standby_shows_all_and_is_no_place_to_run(pair: tuple[Postgres, Postgres]) -> None:
    primary, standby = pair
    with opened(primary.url()) as ledger:
        ledger.enroll([sample_cell(0)])
        follow(primary, standby)
        with opened(standby.url(), timeout=3600.0) as looking:
            assert states(looking)["pending"] == 1
            assert looking.events() == ledger.events()
            with pytest.raises(LedgerAway, match=r"cannot be written: .* its server is a standby"):
                looking.claim(ME, [sample_cell(0).fingerprint])
