"""Which cells a handle claims first where several claim short cells at once: its own share.

All who claim among the same cells want the best of them, and whoever comes second finds it taken.
So of cells that are equally good every runner at work has a share, the same by everybody's count;
whoever is through with its own takes of the others', not the same ones first as the next.
What is looked up for that is believed for a moment: where cells take longer, all go by the order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple
from zlib import crc32

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.resource import Offer
from benchfleet.ledger.postgres.choices import ChosenCells, Key, Lane, Part
from benchfleet.ledger.postgres.connections import Connections
from benchfleet.ledger.postgres.statements import numbered
from benchfleet.ledger.sql import Clock

_HURRY = 0.005  # seconds from claim to claim, for each runner, of those in each other's way
_FEW, _MANY = 4, 64  # runners: as many as that count, where fewer do; where they are not known
_BELIEVED, _NEW = 0.025, 0.005  # seconds for which a share stands, for each runner; if some are new
_SEEN = 0.1  # seconds for which a runner counts after it was at work, at least
_PACE, _LATE = 16, 2  # the same in claims of the asker's; as times as long as a hurry
_RELEARNT = 1.0  # seconds after which it may be another number of runners
_CLAIMS = 32  # claims that a share is to suffice for
_AHEAD = 4  # times as many cells as the runners claim at once, past which others have got lately


class Asked(NamedTuple):
    """What a handle asks for."""

    runner: RunnerId
    chosen: ChosenCells
    offer: Offer
    lanes: Mapping[int, Lane]
    limit: int


class Share:
    """The cells of one handle's share that nobody began yet, as far as it knows."""

    def __init__(self, connections: Connections, clock: Clock | None) -> None:
        self._connections, self._clock = connections, clock
        self._cells: Sequence[int] = []
        self._others: set[int] = set()  # those among them that are of others' shares
        self._of: tuple[object, ...] = ()  # what it is the share of
        self._until = self._claimed = 0.0  # on the monotonic clock
        self._since = 0.0  # seconds between the last two claims
        self._seen: dict[str, float] = {}  # runners, and when they were last seen at work
        self.runners = 0  # of those; 0 before it is known
        self._event: int | None = None  # what ended after it is news

    def claims(self) -> None:
        """Note that the handle claims now, and so in how much of a hurry it is."""
        now = time.monotonic()
        self._since, self._claimed = now - self._claimed, now

    def next(self, asked: Asked) -> Sequence[int]:
        """What is left of the share, the best first; none where there is no hurry.

        What could not be taken for now stays, until it is known to have begun.
        """
        offer, chosen = asked.offer, asked.chosen
        of = (chosen, chosen.version, offer.gpus, offer.vram, dict(offer.models), offer.others)
        self._cells = [*filter(chosen.waits, self._cells)]
        if not self._cells:
            self._until = 0.0
        if self._hurry() and (self._claimed > self._until or of != self._of):
            self._look(asked)
            self._of = of
        if not self._hurry():
            self._cells = []
            self._event = None
            if self._claimed > self._until + _RELEARNT:
                self.runners = 0
        return self._cells

    def owns(self, ordinal: int) -> bool:
        """Whether a cell of it is the handle's own, rather than of another's share."""
        return ordinal not in self._others

    def ahead(self, limit: int) -> int:
        """How many cells others may have taken before one is free; 0 before that is known."""
        return _AHEAD * limit * self.runners

    def _hurry(self) -> bool:
        return self._since < _HURRY * max(_FEW, self.runners or _MANY)

    def _look(self, asked: Asked) -> None:
        """Learn who is at work and what they ended, and take the share by that."""
        # Events are not seen in the order of their numbers.
        since = None if self._event is None else b"%d" % (self._event - 4 * self.runners)
        clock = repr(self._clock()).encode() if self._clock else None
        seen = max(_SEEN, _PACE * self._since, _LATE * _HURRY * self.runners)
        asking = [since, clock, repr(seen).encode()]
        ((names, ended, event),) = self._connections.answer("crowd", asking)
        self._event = int(event or 0)
        asked.chosen.begun(numbered(ended))
        now, before = self._claimed, {*self._seen}
        self._seen |= dict.fromkeys((*json.loads(names or b"[]"), asked.runner), now)
        self._seen = {name: at for name, at in self._seen.items() if at > now - seen}
        self.runners, new = len(self._seen), self._seen.keys() != before
        self._until = now + (_NEW if new else _BELIEVED) * max(_FEW, self.runners)
        self._cells = self._shared(asked, new=new)

    def _shared(self, asked: Asked, *, new: bool) -> Sequence[int]:
        """The handle's own of the cells that are as good as the best; where those do not suffice,
        others' of them too, and its own of the next best."""
        ordered = partial(asked.chosen.ordered, asked.offer, asked.lanes)
        part = Part(sorted(self._seen).index(asked.runner), self.runners)
        most = _CLAIMS * asked.limit
        self._others.clear()
        if (best := next(ordered(), None)) is None:
            return []
        own = _alike(islice(ordered(part), most), best)
        if len(own) >= asked.limit:
            # Those who do not know each other yet share a part: each begins elsewhere.
            return _turned(own, crc32(asked.runner.encode()) % len(own) if new else 0)
        keys = [*islice(ordered(), self.ahead(asked.limit))]
        alike = _alike(keys, best)
        others = [one for one in alike if one not in own]
        self._others.update(others)
        share = [*own, *_turned(others, len(others) * part.number // part.parts)]
        if len(alike) < len(keys):
            share += _alike(islice(ordered(part), len(own), most), keys[len(alike)])
        return share


def _alike(keys: Iterable[Key], best: Key) -> list[int]:
    """The ordinals of those that are as good as the best."""
    return [int(key[2]) for key in takewhile(lambda key: key[:2] == best[:2], keys)]


def _turned(cells: Sequence[int], place: int) -> Sequence[int]:
    """The same from that place on, then those before."""
    return [*cells[place:], *cells[:place]]
