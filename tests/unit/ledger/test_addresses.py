"""Which addresses of ledgers lead to two for sure."""

from __future__ import annotations

import pytest

from benchfleet.ledger.addresses import surely_differ


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("sqlite:/a/ledger.db", "sqlite:/a/ledger.db", False),
        ("sqlite:/a/ledger.db", "sqlite:/a/copy.db", True),
        ("sqlite:/a/ledger.db", "git+file:///a/lab.git", True),
        ("postgresql://db/bench", "git+ssh://lab/bench.git", True),
        ("postgresql://db/bench", "postgres://me@db.lab/bench", False),
        ("git+ssh://lab/bench.git", "git+file:///srv/bench.git", False),
    ],
)
def test_servers_of_one_kind_may_be_the_same(one: str, other: str, differ: bool) -> None:
    assert surely_differ(one, other) is surely_differ(other, one) is differ
