"""For how long the slots of a model or a host have been at their cells."""

from __future__ import annotations

from benchfleet.engines.base import SlotId


class BusyTimes:
    """Since when each slot computes its cell, by what such slots have in common."""

    def __init__(self) -> None:
        self._since: dict[str, dict[SlotId, float]] = {}  # by key, the first that began first
        self._by: dict[SlotId, str] = {}

    def begin(self, slot: SlotId, key: str, now: float) -> None:
        """The slot computes from now on."""
        self.end(slot)
        self._by[slot] = key
        self._since.setdefault(key, {})[slot] = now

    def end(self, slot: SlotId) -> None:
        """The slot computes no more."""
        if (key := self._by.pop(slot, None)) is not None:
            del self._since[key][slot]
            if not self._since[key]:
                del self._since[key]

    def seconds(self, key: str, now: float) -> float:
        """For how long even the last of these slots has computed; 0 where none does."""
        return now - next(reversed(self._since.get(key, {}).values()), now)
