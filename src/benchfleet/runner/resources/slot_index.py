"""An index of open slots by their traits, so that no query walks all slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from benchfleet.domain.resource import Need
from benchfleet.engines.base import SlotId
from benchfleet.runner.resources.shapes import SlotShape

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class SlotTraits(NamedTuple):
    """What of an open slot decides which cells it will take."""

    width: int
    endpoint: str  # the server elsewhere that it asks, or ""
    alone: bool
    memory: int  # bytes of the smallest of its GPUs
    gpus: int
    holds: int  # bytes of each that its cells state as their need
    model: str  # that it has, or was opened for; "" for none
    starts: bool = False  # it was opened for nothing in particular, and has not said hello
    host: str = ""  # where hosts differ

    def takes(self, shape: SlotShape) -> bool:
        same = self[:3] == shape[:3]
        return same and self.memory >= shape.memory and shape.suits(self.host)


class SlotIndex:
    """Counts the slots that will take another order, by how they stand."""

    def __init__(self) -> None:
        self._of: dict[SlotId, SlotTraits] = {}
        self._on: dict[str, Counter[SlotTraits]] = {}  # by host
        self._starting: dict[str, Counter[SlotTraits]] = {}  # of these, those that start
        # GPUs and memory of those that have a model, by host
        self._models: dict[tuple[tuple[object, ...], str], dict[str, Counter[tuple[int, int]]]] = {}

    def note(self, slot: SlotId, traits: SlotTraits | None) -> None:
        """How the slot stands now; None where it takes no order any more."""
        before = self._of.pop(slot, None)
        if before is not None:
            self._add(before, -1)
        if traits is not None:
            self._of[slot] = traits
            self._add(traits, 1)

    def serving(self, shape: SlotShape, load_key: str, need: Need) -> int:
        """The slots of this shape that have the model in memory, or are about to, and are such as
        these cells need."""
        by_host = self._models.get((shape[:3], load_key), {})
        least = max(need.vram, shape.memory)
        return sum(
            count
            for counts in _suitable(by_host, shape)
            for (gpus, memory), count in counts.items()
            if gpus >= need.gpus and memory >= least
        )

    def serves(self, shape: SlotShape, need: Need) -> bool:
        """Whether one has what such cells need."""
        return any(
            one.gpus >= need.gpus and one.holds >= need.vram and one.takes(shape)
            for counts in _suitable(self._on, shape)
            for one in counts
        )

    def starting_for(self, shape: SlotShape) -> Mapping[str, int]:
        """The slots that take such cells and have not said hello, by the model they are for."""
        matches: Counter[str] = Counter()
        for counts in _suitable(self._starting, shape):
            for one, count in counts.items():
                if one.takes(shape):
                    matches[one.model] += count
        return matches

    def _add(self, traits: SlotTraits, count: int) -> None:
        _count(self._on, traits.host, traits, count)
        if traits.starts:
            _count(self._starting, traits.host, traits, count)
        if traits.model:
            of_model = traits[:3], traits.model
            by_host = self._models.setdefault(of_model, {})
            _count(by_host, traits.host, (traits.gpus, traits.memory), count)
            if not by_host:
                del self._models[of_model]


def _suitable(by_host: Mapping[str, T], shape: SlotShape) -> Iterator[T]:
    """What is of hosts where such cells may be run, and are meant to."""
    if shape.preferred_host is not None:
        if shape.preferred_host in by_host:
            yield by_host[shape.preferred_host]
        return
    yield from (one for host, one in by_host.items() if shape.suits(host))


def _count(by_host: dict[str, Counter[K]], host: str, key: K, by: int) -> None:
    """Count so many more, and keep no empty count."""
    counts = by_host.setdefault(host, Counter())
    counts[key] += by
    if not counts[key]:
        del counts[key]
    if not counts:
        del by_host[host]
