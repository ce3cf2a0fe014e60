"""Reading all of a large ledger on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchfleet.ledger.postgres import connections
from postgres import Postgres


def test_a_copy_of_a_large_history_is_not_cut_off(
    opened: Callable[..., Any], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = opened().schema
    postgres.sql(
        f"insert into {schema}.ended"  # noqa: S608 - our own name
        " (seq, at, ordinal, attempt, token, runner, claim_seq, claimed_at, outcome)"
        " select 2 * n, n, 1, n, n, 'me', 2 * n - 1, n, '{}' from generate_series(1, 200000) as n"
    )
    monkeypatch.setattr(connections, "_STATEMENT", "50ms")  # instead of a minute, as it would take
    with opened().tables() as tables:
        read = {table: sum(1 for _ in rows) for table, rows in tables}
    assert read["event"] == 400000
