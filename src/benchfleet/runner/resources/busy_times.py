"""How long the slots of a model or a host should still be at their cells."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.engines.base import SlotId
from benchfleet.runner.resources.slot import Slot


class BusyTimes:
    """When each slot began to compute its cell, and how long that should take, by what such slots
    have in common."""

    def __init__(self) -> None:
        # By key: the slot, when it began, and the seconds that its cell should take.
        self._cells: dict[str, dict[SlotId, tuple[Slot, float, float]]] = {}
        self._by: dict[SlotId, str] = {}

    def begin(self, slot: Slot, key: str, now: float, expected: float | None) -> None:
        """The slot computes from now on."""
        self.end(slot)
        self._by[slot.id] = key
        self._cells.setdefault(key, {})[slot.id] = slot, now, expected or 0.0

    def end(self, slot: Slot) -> None:
        """The slot computes no more."""
        if (key := self._by.pop(slot.id, None)) is not None:
            del self._cells[key][slot.id]
            if not self._cells[key]:
                del self._cells[key]

    def outlast(
        self, key: str, slots: int, seconds: float, now: float, takes: Callable[[Slot], bool]
    ) -> bool:
        """Whether at least so many slots compute that will take such cells, and none of them should
        end its cell in so many seconds. A cell that is late, as all are whose time nobody knows,
        may be late by as much again."""
        count = 0
        for slot, began, expected in self._cells.get(key, {}).values():
            if slot.draining or not takes(slot):
                continue
            if abs(began + expected - now) <= seconds:
                return False
            count += 1
        return count >= max(1, slots)
