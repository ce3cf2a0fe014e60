"""The browser of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from browsers import chromium

LIMIT_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that waits long for what a page is to show."""
    expect.set_options(timeout=LIMIT_MS)
    with chromium() as found:
        yield found
