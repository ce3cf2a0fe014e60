"""How long models take to load, as slots show it before a cell with them has ended."""

from __future__ import annotations

from benchfleet.engines.base import SlotId


class LoadTimes:
    """Since when each slot loads a model, and how long the last that was loaded took."""

    def __init__(self) -> None:
        self._since: dict[str, dict[SlotId, float]] = {}  # by load key, the first that began first
        self._by: dict[SlotId, str] = {}
        self._took: dict[str, float] = {}

    def begin(self, slot: SlotId, model: str, now: float) -> None:
        """The slot loads it from now on."""
        self.drop(slot)
        self._by[slot] = model
        self._since.setdefault(model, {})[slot] = now

    def end(self, slot: SlotId, now: float) -> None:
        """The slot has loaded what it was at, if anything."""
        if (model := self._by.get(slot)) is not None:
            self._took[model] = now - self._since[model][slot]
            self.drop(slot)

    def drop(self, slot: SlotId) -> None:
        """The slot is at it no more, and nobody knows whether it was loaded."""
        if (model := self._by.pop(slot, None)) is not None:
            del self._since[model][slot]
            if not self._since[model]:
                del self._since[model]

    def seconds(self, model: str, now: float, *, usual: float) -> float:
        """How long the model takes to load: as is `usual`, or as was seen where that is 0, and at
        least for as long as a slot has been at it."""
        since = next(iter(self._since.get(model, {}).values()), now)
        return max(usual or self._took.get(model, 0.0), now - since)
