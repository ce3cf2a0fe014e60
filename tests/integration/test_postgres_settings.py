"""The PostgreSQL ledger for roles, databases and addresses that are set up in other ways."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.errors import LedgerAway, LedgerError
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from pgbouncer import PgBouncer
from postgres import Postgres
from states import states

ME = RunnerId("me")


@pytest.fixture
def opened(postgres: Postgres) -> Iterator[Callable[..., Any]]:
    """Opens the ledger of the test's own campaign, and closes it."""
    campaign = uuid.uuid4().hex
    with ExitStack() as open_ones:

        def opened(url: str = "", **options: Any) -> Any:
            from benchfleet.ledger.postgres.ledger import PostgresLedger

            ledger = PostgresLedger(url or postgres.url(), campaign=campaign, **options)
            return open_ones.enter_context(closing(ledger))

        yield opened


@pytest.fixture
def role(postgres: Postgres) -> Callable[..., str]:
    """Makes a role that may do all with these settings of its own: its address."""

    def made(*settings: str) -> str:
        name = f"role_{uuid.uuid4().hex[:8]}"
        postgres.sql(f"create role {name} login superuser")
        for setting in settings:
            postgres.sql(f"alter role {name} set {setting}")
        return postgres.url(user=name)

    return made


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_no_event_is_passed_over_however_a_role_isolates_its_transactions(
    opened: Callable[..., Any], role: Callable[..., str], postgres: Postgres, level: str
) -> None:
    """Who waits for an event to be committed sees it then, and what came after it."""
    import psycopg

    ledger = opened(role(f"default_transaction_isolation = '{level}'"))
    with psycopg.connect(postgres.url()) as slow:
        slow.execute(f'set search_path to "{ledger.schema}"'.encode())
        slow.execute("insert into event (at, kind, fingerprint, data) values (0, 'slow', '', '{}')")
        seen: list[list[str]] = []
        looking = threading.Thread(target=lambda: seen.append([e.kind for e in ledger.events()]))
        looking.start()
        looking.join(0.3)
        slow.commit()
        looking.join(30)
    assert seen == [["slow"]]


def test_who_enrolls_waits_for_another_whatever_a_role_says_of_locks(
    opened: Callable[..., Any], role: Callable[..., str], postgres: Postgres
) -> None:
    import psycopg

    ledger = opened(role("lock_timeout = '10ms'"))
    with psycopg.connect(postgres.url()) as slow:
        slow.execute(f'set search_path to "{ledger.schema}"'.encode())
        slow.execute(
            "select pg_advisory_xact_lock(hashtextextended(current_schema() || ' enrols', 0))"
        )
        output: list[int] = []
        enrolling = threading.Thread(target=lambda: output.append(ledger.enroll([sample_cell(0)])))
        enrolling.start()
        enrolling.join(0.3)
        slow.commit()
        enrolling.join(30)
    assert output == [1]


@pytest.mark.parametrize(
    "setting",
    [
        "extra_float_digits = -9",
        "array_nulls = off",
        "datestyle = 'German'",
        "datestyle = 'SQL, DMY'",
        "datestyle = 'Postgres'",
    ],
)
def test_cells_end_and_their_times_are_right_whatever_settings_a_role_has(
    opened: Callable[..., Any], role: Callable[..., str], setting: str
) -> None:
    ledger = opened(role(setting))
    assert ledger.enroll([sample_cell(0), sample_cell(1)]) == 2
    claims = claim_any(ledger, ME, 2)
    ended = [(claim.lease, Outcome(state="success", digest="abc")) for claim in claims]
    assert ledger.finish_all(ended) == [None, None]
    assert ledger.events() == opened().events()


def test_names_are_kept_whatever_encoding_an_address_asks_for(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    cell = sample_cell(0, model="模型-ü")
    ledger = opened(f"{postgres.url()}?client_encoding=latin1")
    ledger.enroll([cell])
    (claim,) = claim_any(ledger, RunnerId("läufer"))
    ledger.finish(claim.lease, Outcome(state="success", digest="abc"))
    assert [record.cell for record in opened().cells(with_cell=True)] == [cell]


def test_a_database_that_cannot_hold_every_name_gets_no_ledger(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    name = f"latin_{uuid.uuid4().hex[:8]}"
    postgres.sql(f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    with pytest.raises(LedgerError, match=r"is in LATIN1, .* encoding 'UTF8' template template0"):
        opened(postgres.url(database=name))


def test_a_role_that_may_only_read_by_its_settings_is_refused_at_once(
    opened: Callable[..., Any], role: Callable[..., str]
) -> None:
    opened().enroll([sample_cell(0)])
    ledger = opened(role("default_transaction_read_only = on"), timeout=3600.0)
    assert states(ledger)["pending"] == 1
    assert [event.kind for event in ledger.events()] == ["enrolled"]
    with pytest.raises(LedgerAway, match=r"cannot be written: .*\(default_transaction_read_only\)"):
        ledger.claim(ME, [sample_cell(0).fingerprint])


def test_a_server_that_takes_no_more_connections_is_waited_for_and_then_named(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    """A role may have one connection, which somebody has until it is given back."""
    import psycopg

    name = f"role_{uuid.uuid4().hex[:8]}"
    postgres.sql(f"create role {name} login connection limit 1")
    opened()  # makes the ledger
    with psycopg.connect(postgres.url(user=name)) as taken:
        with pytest.raises(LedgerAway, match=r"too many connections for role .*max_connections"):
            opened(postgres.url(user=name), timeout=0.2)
        waiting = threading.Timer(0.5, taken.close)
        waiting.start()
        with pytest.raises(LedgerError, match="denies access"):  # it is in, without rights
            opened(postgres.url(user=name))
        waiting.join()


def test_a_pooler_that_gives_whole_sessions_may_stand_between(
    opened: Callable[..., Any], postgres: Postgres
) -> None:
    with closing(PgBouncer(postgres, "session")) as pooler:
        ledger, other = opened(pooler.url()), opened(pooler.url())
        output = threading.Event()
        other.listen(output.set)
        assert output.wait(30)  # as it begins to listen
        output.clear()
        ledger.enroll([sample_cell(n) for n in range(20)])
        assert output.wait(30)
        for handle in (ledger, other) * 10:
            (claim,) = claim_any(handle, ME)
            handle.finish(claim.lease, Outcome(state="success", digest="abc"))
        assert states(ledger)["success"] == 20
        for one in (ledger, other):
            one.close()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_gives_less_than_sessions_is_refused(
    opened: Callable[..., Any], postgres: Postgres, mode: str
) -> None:
    with (
        closing(PgBouncer(postgres, mode)) as pooler,
        pytest.raises(LedgerError, match=r"transaction pooler.*pool_mode = session"),
    ):
        opened(pooler.url())
