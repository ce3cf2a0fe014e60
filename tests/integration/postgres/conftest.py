"""A campaign of the test's own on the session's server, and a line to it that can be cut."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome, RunnerId
from cut_lines import Line
from postgres import Postgres

ME = RunnerId("me")
SUCCESS = Outcome(state="success", digest="abc")


@pytest.fixture
def campaign() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def opened(postgres: Postgres, campaign: str) -> Iterator[Callable[..., Any]]:
    """Opens the ledger of the test's campaign, and closes it."""
    with ExitStack() as open_ones:

        def opened(**options: Any) -> Any:
            from benchfleet.ledger.postgres.ledger import PostgresLedger

            url = options.pop("url", postgres.url())
            ledger = PostgresLedger(url, campaign=campaign, **options)
            return open_ones.enter_context(closing(ledger))

        yield opened


@pytest.fixture
def line(postgres: Postgres) -> Iterator[Line]:
    with closing(Line(postgres.port)) as line:
        yield line


def finishes(ledger: Any) -> Counter[str]:
    """The number of `finished` events of each cell, by its fingerprint."""
    return Counter(event.fingerprint for event in ledger.events(kinds=["finished"]))
