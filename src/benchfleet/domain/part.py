"""A large cell that is split: ranges of its samples that run as cells of their own.

A split is an event of the whole cell. It names the ranges, so every runner derives the same part
cells from it. They are enrolled, claimed and retried as all cells are, so each has a lease and a
token of its own. The whole cell waits for them. Then a runner claims it, joins what they recorded,
and scores and publishes it once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .event import Event

if TYPE_CHECKING:
    from .cell import Cell

AUTO_SPLIT = 0  # of `Cell.split`: as many parts as pay
SPLIT = "split"  # the kind of the event
_PART_ID = re.compile(r"\+part\d+of\d+(@[0-9a-f]{8})?(/r\d+)?$")
FOLLOWED = ("claimed", SPLIT, "finished", "cancel_asked")  # the kinds that `Splits` reads


@dataclass(frozen=True, kw_only=True)
class Part:
    """Part `number` of `count`: the samples from ``start / of`` to ``stop / of`` of the cell's."""

    number: int  # the first is 1
    count: int
    start: int
    stop: int
    of: int  # the number of samples where that is known, else the number of parts
    attempt: int  # of the whole cell when it was split: another split makes other parts

    @property
    def label(self) -> str:
        """``part2of4``: how ids and paths call it."""
        return f"part{self.number}of{self.count}"

    @property
    def share(self) -> float:
        """Of the samples."""
        return (self.stop - self.start) / self.of

    def identity(self) -> dict[str, Any]:
        """What of it enters the fingerprint of its cell."""
        return dict(vars(self))

    def may_hold(self, index: int) -> bool:
        """Whether a sample that its cell had recorded may be one of its. All may where the number
        of samples was not known, and what was kept for the next attempt alone (below 0)."""
        return index < 0 or self.of == self.count or self.start <= index < self.stop

    def positions(self, boundaries: Sequence[int], samples: int) -> range:
        """The positions of its samples among all. Samples between two `boundaries` stay together:
        a cut moves up to the next boundary. The parts of a split cover each sample once."""
        return range(
            _cut(self.start, self.of, boundaries, samples),
            _cut(self.stop, self.of, boundaries, samples),
        )


def _cut(numerator: int, of: int, boundaries: Sequence[int], samples: int) -> int:
    target = numerator * samples // of
    return min((one for one in boundaries if one >= target), default=samples)


def whole_of(cell: Cell) -> Cell:
    """The cell that this one is a part of; itself if it is none."""
    return replace(cell, part=None) if cell.part else cell


def is_part_id(id: str) -> bool:
    """Whether that is the id of a part, such as ``tiny/dense/recall+part2of4``, or its path. Parts
    of a later split have marked paths, such as ``tiny/dense/recall+part2of4@0123abcd``."""
    return _PART_ID.search(id) is not None


@dataclass(frozen=True, kw_only=True)
class Split:
    """A whole cell, and the ranges that it was split into."""

    fingerprint: str
    attempt: int
    token: int  # of the lease under which it was split
    cuts: tuple[int, ...]  # where the ranges begin and end: one more than there are ranges
    of: int
    parts: Sequence[str] = ()  # fingerprints; of a split that was read from a ledger

    @classmethod
    def evenly(cls, fingerprint: str, attempt: int, token: int, count: int) -> Split:
        """So many equal ranges."""
        cuts = tuple(range(count + 1))
        return cls(fingerprint=fingerprint, attempt=attempt, token=token, cuts=cuts, of=count)

    @classmethod
    def of_rest(
        cls,
        fingerprint: str,
        attempt: int,
        token: int,
        count: int,
        *,
        samples: int,
        recorded: Collection[int],
        draws: int,
    ) -> Split:
        """At most so many ranges of a cell that has `recorded` these of its `samples`: what is left
        is shared out. The `draws` answers to a question stay together."""
        rest = [index for index in range(samples) if index not in recorded]
        inner = {rest[len(rest) * n // count] // draws * draws for n in range(1, count) if rest}
        cuts = tuple(sorted({0, *inner, samples}))
        return cls(fingerprint=fingerprint, attempt=attempt, token=token, cuts=cuts, of=samples)

    @classmethod
    def around(cls, fingerprint: str, token: int, parts: Collection[Part]) -> Split:
        """The split that these parts are of. The ranges of its other parts are not known where the
        whole was not split evenly: what is left between these parts is shared out."""
        first = next(iter(parts))
        known_cuts = {0: 0, first.count: first.of}
        for part in parts:
            known_cuts |= {part.number - 1: part.start, part.number: part.stop}
        numbers = sorted(known_cuts)
        cuts = [0]
        for low, high in pairwise(numbers):
            begin, length, ranges = known_cuts[low], known_cuts[high] - known_cuts[low], high - low
            cuts += [begin + length * number // ranges for number in range(1, ranges + 1)]
        return cls(
            fingerprint=fingerprint,
            attempt=first.attempt,
            token=token,
            cuts=tuple(cuts),
            of=first.of,
        )

    def event(self, parts: Iterable[Cell]) -> Event:
        """The event that splits the cell into these parts, which are `cells`."""
        data = {
            "attempt": self.attempt,
            "token": self.token,
            "cuts": list(self.cuts),
            "of": self.of,
            "parts": [str(part.fingerprint) for part in parts],  # for those who count and bill
        }
        return Event(kind=SPLIT, fingerprint=self.fingerprint, data=data)

    @classmethod
    def from_event(cls, event: Event) -> Split:
        data = event.data
        return cls(
            fingerprint=event.fingerprint,
            attempt=data["attempt"],
            token=data["token"],
            cuts=tuple(data["cuts"]),
            of=data["of"],
            parts=data["parts"],
        )

    def cells(self, whole: Cell) -> list[Cell]:
        """The cells of its parts."""
        ranges = list(zip(self.cuts, self.cuts[1:], strict=False))
        return [
            replace(
                whole,
                split=1,
                part=Part(
                    number=number,
                    count=len(ranges),
                    start=start,
                    stop=stop,
                    of=self.of,
                    attempt=self.attempt,
                ),
            )
            for number, (start, stop) in enumerate(ranges, 1)
        ]


class Splits:
    """The splits that are in force, by the fingerprint of the whole cell: a fold of events.

    A split counts if its token is that of the cell's last claim: who lost the lease meanwhile
    cannot split the cell. It is in force until the cell ends or is cancelled.
    """

    def __init__(self) -> None:
        self.current: dict[str, Split] = {}
        self._tokens: dict[str, int] = {}

    def follow(self, events: Iterable[Event]) -> list[Split]:
        """Take in events of the kinds `FOLLOWED`; the splits that are new."""
        new = []
        for event in events:
            fingerprint = event.fingerprint
            if event.kind == "claimed":
                self._tokens[fingerprint] = event.data["token"]
            elif event.kind == "cancel_asked" or (
                event.kind == "finished" and event.data["outcome"].get("retry_in") is None
            ):
                self.current.pop(fingerprint, None)
            elif event.kind == SPLIT and fingerprint not in self.current:
                split = Split.from_event(event)
                if split.token == self._tokens.get(fingerprint):
                    self.current[fingerprint] = split
                    new.append(split)
        return new


def parts_that_pay(seconds: float, *, slots: int, load: float, others: float = 0.0) -> int:
    """Into how many parts `split: auto` splits a cell that should still take so many seconds.

    `slots` can work on it, `load` is the time to load its model (seconds), and `others` the time of
    what else is to be done on these slots. 1 if the cell ends before the slots are out of work, or
    if each part would take no longer than a load.
    """
    if slots < 2 or seconds <= (seconds + others) / slots * LONGEST_SHARE:
        return 1
    return max(1, min(slots, int(seconds / max(load, LEAST_PART_S))))


LONGEST_SHARE = 1.05  # of the time until all slots are out of work: what one cell may take
LEAST_PART_S = 2.0  # seconds: a shorter part is not worth a claim and a result of its own
