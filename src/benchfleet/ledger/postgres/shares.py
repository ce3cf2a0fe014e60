"""Which cells a handle claims first where several claim short cells at once: its own share.

All who claim among the same cells want the best of them, and whoever comes second finds it taken.
So of cells that are equally good every runner at work has a share, the same by everybody's count.
What is looked up for that is believed for a moment: where cells take longer, all go by the order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from zlib import crc32

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.resource import Offer
from benchfleet.ledger.postgres.choices import ChosenCells, Lane
from benchfleet.ledger.postgres.claims import text
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.statements import numbered

_HURRY = 0.005  # seconds from claim to claim, for each runner, of those in each other's way
_FEW = 4  # runners, as which fewer count for that
_BELIEVED = 0.025  # seconds for which a share stands, for each runner
_SEEN = 1.0  # seconds for which a runner counts after it was seen at work
_CLAIMS, _ALL = 16, 256  # claims that a share is to suffice for: its own; all runners' together


class Share:
    """The cells of one handle's share that it has not tried yet."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._cells: deque[int] = deque()
        self._of: tuple[object, ...] = ()  # what it is the share of
        self._until = self._claimed = 0.0  # on the monotonic clock
        self._seen: dict[str, float] = {}  # runners, and when they were at work
        self.runners = 0  # of those; 0 before it is known
        self._event: int | None = None  # what ended after it is news

    def next(
        self,
        runner: RunnerId,
        chosen: ChosenCells,
        offer: Offer,
        lanes: Mapping[int, Lane],
        limit: int,
    ) -> Sequence[int]:
        """The first of the share, up to so many; none where there is no hurry."""
        now = time.monotonic()
        hurry, self._claimed = now - self._claimed < _HURRY * max(_FEW, self.runners), now
        asked = (offer.gpus, offer.vram, dict(offer.models), offer.others)
        of = (chosen, chosen.version, asked)
        if not hurry:
            self._cells.clear()
            self._event = None
        elif now > self._until or of != self._of:
            self._of, self._until = of, now + _BELIEVED * max(_FEW, self.runners)
            self._cells = self._looked(runner, chosen, offer, lanes, limit)
        mine = [self._cells.popleft() for _ in range(min(limit, len(self._cells)))]
        if mine and not self._cells:
            self._until = 0.0
        return mine

    def rest(self) -> Iterable[int]:
        """What comes after those."""
        return iter(self._cells)

    def given_up(self) -> Sequence[int]:
        """The same, none of which is in the share any more."""
        cells, self._cells = self._cells, deque()
        if cells:
            self._until = 0.0
        return cells

    def _looked(
        self,
        runner: RunnerId,
        chosen: ChosenCells,
        offer: Offer,
        lanes: Mapping[int, Lane],
        limit: int,
    ) -> deque[int]:
        """The share, after a look at who is at work and what they ended; none at the first look,
        after which it is known what is news."""
        # Events are not seen in the order of their numbers.
        since = None if self._event is None else b"%d" % (self._event - 4 * self.runners)
        ((names, ended, event),) = self._connections.answer("crowd", [since])
        self._event = int(event or 0)
        if since is None:
            self._until = self._claimed + _HURRY * _FEW
            return deque()
        chosen.begun(numbered(ended))
        now = self._claimed
        self._seen |= dict.fromkeys((*text(names).split("\x1e"), str(runner)), now)
        self._seen = {name: at for name, at in self._seen.items() if name and at > now - _SEEN}
        self.runners, number = len(self._seen), sorted(self._seen).index(runner)
        count = max(4 * limit, min(_CLAIMS * limit, _ALL // self.runners))
        # Twice as many: what others have not taken yet comes first.
        keys = chosen.first(offer, lanes, 2 * count * self.runners)
        alike = (int(key[2]) for key in takewhile(lambda key: key[:2] == keys[0][:2], keys))
        return deque(one for one in alike if crc32(b"%d" % one) % self.runners == number)
