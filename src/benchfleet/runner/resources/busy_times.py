"""How long the slots of a model or a host should still be at their cells."""

from __future__ import annotations

from benchfleet.engines.base import SlotId


class BusyTimes:
    """When each slot began to compute its cell, and how long that should take, by what such slots
    have in common."""

    def __init__(self) -> None:
        self._cells: dict[str, dict[SlotId, tuple[float, float]]] = {}  # began, expected seconds
        self._by: dict[SlotId, str] = {}

    def begin(self, slot: SlotId, key: str, now: float, expected: float | None) -> None:
        """The slot computes from now on."""
        self.end(slot)
        self._by[slot] = key
        self._cells.setdefault(key, {})[slot] = now, expected or 0.0

    def end(self, slot: SlotId) -> None:
        """The slot computes no more."""
        if (key := self._by.pop(slot, None)) is not None:
            del self._cells[key][slot]
            if not self._cells[key]:
                del self._cells[key]

    def outlast(self, key: str, slots: int, seconds: float, now: float) -> bool:
        """Whether so many slots compute, and none should end its cell in so many seconds. A cell
        that is late, as all are whose time nobody knows, may be late by as much again."""
        cells = self._cells.get(key, {}).values()
        remaining = (abs(began + expected - now) for began, expected in cells)
        return len(cells) >= max(1, slots) and all(one > seconds for one in remaining)
