"""Cells that are read before they are claimed.

To find the best cell for an offer takes longer than to claim it. What was read holds for as long as
nothing happens in the ledger but that its handle claims and ends cells, so that a handle reads the
more together the longer it is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchfleet.domain.resource import Choice, Offer
from benchfleet.ledger.sqlite.chosen_table import ChosenTable, Do, Rows, wake

_MOST = 32  # cells of a lane that are read together, where fewer are claimed
_OFFERS, _CHOICES = 64, 16  # kinds of offers and choices of which is kept what was worked out
_PLACE = 2  # values by which a row is ordered, before what it tells: priority, negated; rank
Row = Sequence[Any]
OfLane = Callable[..., Rows]  # the statement that reads the best cells of a ``lane``


class Lane:
    """The cells of a lane that wait, the best last. Of the first that was ever read it is only
    known where it stands."""

    def __init__(self, number: int, load_key: str, gpus: int, vram: int, *first: Any) -> None:
        self._number, self._load_key, self._gpus, self._vram = number, load_key, gpus, vram
        self.rows: list[Row] = [first]
        self._together = 0

    def weight(self, offer: Offer) -> float | None:
        """What the offer adds to the rank of its cells; None where they do not fit."""
        fits = self._gpus <= offer.gpus and self._vram <= offer.vram
        return offer.weight(self._load_key) if fits else None

    def read(self, of_lane: OfLane, least: int) -> None:
        """Read the best of those that wait now."""
        self._together = max(least, min(_MOST, 2 * self._together))
        self.rows = of_lane(lane=self._number, limit=self._together).fetchall()[::-1]


class Lanes:
    """The lanes of one choice, or all, in which cells wait."""

    def __init__(self, heads: Rows, of_lane: OfLane, version: int) -> None:
        self.version = version  # of the choice
        self._lanes, self._of_lane = [Lane(*head) for head in heads], of_lane
        self._fitting: dict[tuple[object, ...], list[tuple[Lane, float]]] = {}
        self._empty: Lane | None = None  # it is to be read before it is looked at again

    def first(self, offer: Offer, least: int) -> Row | None:
        """Take out the best cell for the offer; None where none waits. What was taken out before
        has been claimed by now, or nobody asks any more; at `least` so many are wanted."""
        if self._empty is not None:
            self._empty.read(self._of_lane, least)
            self._empty = None
        best: Lane | None = None
        place: tuple[float, float, int] = 0, 0, 0
        for lane, weight in self._fit(offer):
            if lane.rows:
                row = lane.rows[-1]
                its = row[0], row[1] + weight, row[2]
                if best is None or its < place:
                    best, place = lane, its
        if best is None:
            return None
        if len(best.rows[-1]) == _PLACE + 1:
            best.read(self._of_lane, least)
            return self.first(offer, least)  # it may be another that is first now, or none
        row = best.rows.pop()[_PLACE:]
        if not best.rows:
            self._empty = best
        return row

    def _fit(self, offer: Offer) -> list[tuple[Lane, float]]:
        """The lanes whose cells the offer takes, each with what it adds to their ranks."""
        kind = offer.gpus, offer.vram, offer.others, *offer.models.items()
        if (found := self._fitting.get(kind)) is None:
            if len(self._fitting) >= _OFFERS:
                self._fitting.clear()
            weights = ((lane, lane.weight(offer)) for lane in self._lanes)
            found = [(lane, weight) for lane, weight in weights if weight is not None]
            self._fitting[kind] = found
        return found


class ReadAhead:
    """The cells that wait, for claims of any choice; `chosen` says up to which event they are
    known."""

    def __init__(self, chosen: ChosenTable) -> None:
        self._chosen = chosen
        self._lanes: dict[Choice | None, Lanes] = {}
        self._until = 0.0  # by the ledger's clock: when a back-off is over

    def forget(self) -> None:
        """Something else happened, or what was taken out was not claimed."""
        self._lanes.clear()

    def best(self, do: Do, offer: Offer, limit: int, now: float, last: int) -> Iterator[Row]:
        """The best cells for the offer, each to be claimed before the next is asked for; `last` is
        the last event."""
        if last != self._chosen.seen or now >= self._until or len(self._lanes) > _CHOICES:
            self.forget()
        among = offer.among
        lanes = self._lanes.get(among)
        if lanes is None or (among is not None and lanes.version != among.version):
            lanes = self._lanes[among] = self._read(do, among, now, last)
        for _ in range(limit):
            if (row := lanes.first(offer, limit)) is None:
                return
            if len(self._lanes) > 1:
                self._leave_out(row[1], among)
            yield row

    def _read(self, do: Do, among: Choice | None, now: float, last: int) -> Lanes:
        self._until = wake(do, now)
        self._chosen.follow(do, last)
        if among is None:
            return Lanes(do("heads"), partial(do, "of_lane"), 0)
        number = self._chosen.bring(do, among)
        heads = do("chosen_heads", choice=number)
        return Lanes(heads, partial(do, "chosen_of_lane", choice=number), among.version)

    def _leave_out(self, fingerprint: str, among: Choice | None) -> None:
        """What was read for other choices that the cell is of holds no more."""
        for other in [*self._lanes]:
            if other is not among and (other is None or fingerprint in other):
                del self._lanes[other]
