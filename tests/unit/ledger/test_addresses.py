"""Which addresses of ledgers lead to two for sure."""

from __future__ import annotations

import pytest

from benchfleet.ledger.addresses import are_distinct, split_url


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("sqlite:/a/ledger.db", "sqlite:/a/ledger.db", False),
        ("sqlite:/a/ledger.db", "sqlite:/a/copy.db", True),
        ("sqlite:/a/ledger.db", "git+file:///a/lab.git", True),
        ("postgresql://db/bench", "git+ssh://lab/bench.git", True),
        ("postgresql://db/bench", "postgres://me@db.lab/bench", False),
        ("postgresql://db/bench", "postgresql://me@db.lab:5433/bench?sslmode=require", False),
        ("postgresql://db/bench", "postgresql://db/other", True),
        ("postgresql://db/%62ench", "postgresql://db.lab/bench", False),
        ("postgresql://db/bench", "postgresql://db", False),  # by its user, or PGDATABASE
        ("postgresql:///bench?service=lab", "postgresql:///other?service=lab", True),
        ("postgresql://db/bench?dbname=other", "postgresql://db/other", False),
        ("postgresql://me@[::1]:1,db:2/bench?a=/b", "postgresql://db:2/bench", False),
        ("postgresql://[::1/bench", "postgresql://db/bench", False),  # misspelt
        ("git+ssh://lab/bench.git", "git+file:///srv/bench.git", False),
    ],
)
def test_servers_of_one_kind_may_be_the_same(one: str, other: str, differ: bool) -> None:
    assert are_distinct(one, other) is are_distinct(other, one) is differ


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("ledger.db", "ledger.db"),
        ("sqlite:ledger.db", "ledger.db"),
        ("sqlite:///ledger.db", "ledger.db"),  # as SQLAlchemy has it
        ("sqlite:///srv/ledger.db", "/srv/ledger.db"),
        ("sqlite:////srv/ledger.db", "/srv/ledger.db"),
        ("sqlite:////ledger.db", "/ledger.db"),
        ("sqlite:/ledger.db", "/ledger.db"),
    ],
)
def test_the_file_of_an_sqlite_ledger(url: str, path: str) -> None:
    assert split_url(url) == ("sqlite", path)
