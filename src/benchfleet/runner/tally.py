"""How many open slots are alike, so that nobody walks them all to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from benchfleet.domain.resource import Need
from benchfleet.engines.base import SlotId
from benchfleet.runner.place import Shape


class Standing(NamedTuple):
    """What of an open slot decides which cells it will take."""

    width: int
    alone: bool
    memory: int  # bytes of the smallest of its GPUs
    gpus: int
    holds: int  # bytes of each that its cells were said to need
    model: str  # that it has, or was opened for; "" for none
    starts: bool = False  # it was opened for nothing in particular, and has not said hello
    host: str = ""  # where machines are told apart

    def takes(self, shape: Shape, *, stray: bool = False) -> bool:
        same = (self.width, self.alone) == (shape.width, shape.alone)
        return same and self.memory >= shape.memory and shape.suits(self.host, stray=stray)


class Tally:
    """Counts the slots that will take another order, by how they stand."""

    def __init__(self) -> None:
        self._of: dict[SlotId, Standing] = {}
        self._count: Counter[Standing] = Counter()
        # GPUs, memory and host of those that have a model
        self._models: dict[tuple[int, bool, str], Counter[tuple[int, int, str]]] = {}

    def note(self, slot: SlotId, standing: Standing | None) -> None:
        """How the slot stands now; None where it takes no order any more."""
        before = self._of.pop(slot, None)
        if before is not None:
            self._add(before, -1)
        if standing is not None:
            self._of[slot] = standing
            self._add(standing, 1)

    def serving(self, shape: Shape, load_key: str, need: Need) -> int:
        """The slots of this shape that have the model in memory, or are about to, and are such as
        these cells need."""
        alike = self._models.get((shape.width, shape.alone, load_key), Counter())
        least = max(need.vram, shape.memory)
        return sum(
            count
            for (gpus, memory, host), count in alike.items()
            if gpus >= need.gpus and memory >= least and shape.suits(host)
        )

    def serves(self, shape: Shape, need: Need) -> bool:
        """Whether one has what such cells need."""
        return any(
            one.gpus >= need.gpus and one.holds >= need.vram and one.takes(shape)
            for one in self._count
        )

    def starting_for(self, shape: Shape, *, stray: bool = False) -> Mapping[str, int]:
        """The slots that take such cells and have not said hello, by the model they are for."""
        found: Counter[str] = Counter()
        for one, count in self._count.items():
            if one.starts and one.takes(shape, stray=stray):
                found[one.model] += count
        return found

    def _add(self, standing: Standing, count: int) -> None:
        self._count[standing] += count
        if not self._count[standing]:
            del self._count[standing]
        if standing.model:
            of_model = standing.width, standing.alone, standing.model
            alike = self._models.setdefault(of_model, Counter())
            like = standing.gpus, standing.memory, standing.host
            alike[like] += count
            if not alike[like]:
                del alike[like]
            if not alike:
                del self._models[of_model]
