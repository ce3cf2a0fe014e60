"""Ledgers whose rows somebody changed by hand: the check names each change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.event import Event
from benchfleet.errors import LedgerDamaged
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.history import attempts_by_cell
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing import sample_cell
from benchfleet.testing.claims import claim_any
from postgres import Postgres

ME = RunnerId("me")
CELLS = [sample_cell(n) for n in range(6)]
SPOIL = "update event set data = '{}' where seq = (select outcome from cell where ordinal = 1)"


def live(ledger: Any) -> None:
    """One cell for each way a sound ledger may have it; the first ended well."""
    ledger.enroll(CELLS)
    claims = claim_any(ledger, ME, 5)
    ledger.finish(claims[0].lease, Outcome(state="success", digest="abc"))
    ledger.finish(claims[1].lease, Outcome(state="failed", retry_in=0.0))
    ledger.finish(claims[2].lease, Outcome(state="partial", digest="abc"))
    ledger.record(Event(kind="retry_asked", fingerprint=claims[2].lease.fingerprint))
    ledger.release([claims[3].lease], "given back")


@pytest.fixture
def ledger(postgres: Postgres) -> Iterator[Any]:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    with closing(PostgresLedger(postgres.url(), campaign=uuid.uuid4().hex)) as ledger:
        live(ledger)
        assert list(problems(ledger)) == []
        yield ledger


@pytest.fixture
def edit(ledger: Any, postgres: Postgres) -> Any:
    def edit(statement: str) -> None:
        postgres.sql(f"set search_path = {ledger.schema}; {statement}")

    return edit


@pytest.mark.parametrize(
    ("statement", "output"),
    [
        (
            "update cell set state = 'failed' where ordinal = 1",
            "it is failed, and ended as success",
        ),
        ("update cell set state = 'odd' where ordinal = 1", "its state is 'odd', which is none"),
        ("update cell set state = 'pending' where ordinal = 1", "it waits, and ended as success"),
        ("update cell set expires = null where ordinal = 5", "its lease never runs out"),
        (
            "update cell set ended_token = 7 where ordinal = 1",
            "its token 1 is below 7, which ended",
        ),
        (
            "update cell set outcome = null where ordinal = 1",
            "not that of the attempt that ended last",
        ),
        (
            "update cell set outcome = outcome - 1 where ordinal = 1",
            "its outcome is not in the history",
        ),
        (SPOIL.format("{}"), "how it ended cannot be read"),
        (SPOIL.format("odd"), "how it ended cannot be read"),
        ("update spec set spec = 'odd' where ordinal = 1", "what it is cannot be read"),
        ("update spec set spec = '{}' where ordinal = 1", "what it is cannot be read"),
        ("update spec set terms = '{}' where ordinal = 1", "what it is cannot be read"),
        ("delete from spec where ordinal = 1", "what it is does not stand there"),
        ("delete from cell where ordinal = 1", "cell 1: what it is stands there, and nothing else"),
        ("update cell set path = '../../x' where ordinal = 1", "not a path below the results"),
        ("update cell set id = 'x/y/z' where ordinal = 1", "and called x/y/z"),
        (
            "insert into event (at, kind, fingerprint, data) values (1, 'finished', 'odd', '{}')",
            "it names a cell that does not exist",
        ),
        ("update event set data = '{odd' where kind = 'claimed'", "what it says cannot be read"),
        ("update event set data = '[]' where kind = 'released'", "what it says cannot be read"),
    ],
)
def test_rows_that_somebody_changed_are_reported(
    ledger: Any, edit: Any, statement: str, output: str
) -> None:
    edit(statement)
    assert any(output in fault for fault in problems(ledger))


def test_one_row_that_cannot_be_read_hides_no_other(ledger: Any, edit: Any) -> None:
    edit("update spec set spec = 'odd' where ordinal < 4")
    assert len(list(problems(ledger))) == 3


def test_reading_a_changed_row_is_refused_with_a_message(ledger: Any, edit: Any) -> None:
    edit(SPOIL.format("odd"))
    edit("update spec set spec = 'odd' where ordinal = 2")
    with pytest.raises(LedgerDamaged, match=r"what a cell is: odd; see `benchfleet ledger check`"):
        list(ledger.cells(with_cell=True))
    first = next(ledger.cells())
    with pytest.raises(LedgerDamaged, match=r"cannot tell how .* ended"):
        assert first.outcome
    for statement in (
        "update event set data = '{odd' where kind = 'claimed'",
        "update event set data = '[]' where kind = 'claimed'",
    ):
        edit(statement)
        with pytest.raises(LedgerDamaged, match=r"cannot tell event \d+; see `benchfleet"):
            assert attempts_by_cell(ledger.events())[CELLS[0].fingerprint][0].runner


@pytest.mark.parametrize(
    "statement",
    [
        "delete from meta where key = 'schema'",
        "delete from meta where key = 'campaign'",
        "update meta set value = 'odd' where key = 'schema'",
    ],
)
def test_a_ledger_that_does_not_tell_what_it_is_is_damaged(
    postgres: Postgres, statement: str
) -> None:
    from benchfleet.ledger.postgres.ledger import PostgresLedger

    campaign = uuid.uuid4().hex
    with closing(PostgresLedger(postgres.url(), campaign=campaign)) as ledger:
        postgres.sql(f"set search_path = {ledger.schema}; {statement}")
    with pytest.raises(LedgerDamaged, match="its table meta lacks what it is"):
        PostgresLedger(postgres.url(), campaign=campaign)


def test_rows_of_a_file_are_reported_in_the_same_form(tmp_path: Path) -> None:
    ledger: Any = SqliteLedger(tmp_path / "ledger.db", campaign="study")
    with closing(ledger):
        live(ledger)
        assert list(problems(ledger)) == []
        ledger._connection.execute("update cell set state = 'failed' where ordinal = 1")
        ledger._connection.execute("update spec set terms = '{}' where ordinal = 2")
        output = [fault.partition(": ")[2] for fault in problems(ledger)]
        assert sorted(output) == ["it is failed, and ended as success", "what it is cannot be read"]
