"""How many requests go to an endpoint at a time: fewer after a 429, more after a good round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FIRST_LIMIT = 8  # requests at a time at first


class AdaptiveLimit:
    """The number of requests that may be under way at once.

    It starts at `FIRST_LIMIT` or at `most`, grows by one after each full round without a 429, and
    is halved by a 429. Requests that were under way at a cut do not cut again.
    """

    def __init__(self, most: int, *, adapts: bool = True) -> None:
        self._most = most
        self.now = min(FIRST_LIMIT, most) if adapts else most
        self._under_way = self._good = self._cuts = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[int]:
        """Wait for room, and hold it; gives the number of cuts until then."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._under_way < self.now)
            self._under_way += 1
        try:
            yield self._cuts
        finally:
            async with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def succeeded(self) -> None:
        """A request was answered."""
        self._good += 1
        if self._good >= self.now:
            self._good, self.now = 0, min(self._most, self.now + 1)

    def limited(self, cuts: int) -> None:
        """A request that began after so many cuts was answered with 429."""
        self._good = 0
        if cuts == self._cuts:
            self._cuts, self.now = self._cuts + 1, max(1, self.now // 2)
