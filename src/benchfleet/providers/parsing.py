"""Reads what providers answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchfleet.providers.base import ProviderAway

_MILLION = 1_000_000


def millionths(amount: Any) -> int:
    """An amount of money as all of benchfleet counts it."""
    return round(float(amount or 0) * _MILLION)


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Raise ProviderAway if an answer lacks what the block reads of it: half a list proves
    nothing."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ProviderAway(f"the answer about {what} cannot be read: {error!r}") from None
