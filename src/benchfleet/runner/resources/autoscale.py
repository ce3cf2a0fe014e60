"""How many slots should share one memory: what was seen of it, and a pure decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.resource import MemoryState

SETTLE_S = 30.0  # until a change of the number of slots shows in the memory
SHORT = 0.05  # part of the memory: with less free, a slot is closed
ROOM = 0.15  # part of the memory that stays free when a slot is opened
BUSY = 0.9  # part of the time in which a device computes: one more slot brings nothing


@dataclass(kw_only=True)
class MemoryUse:
    """One memory and the slots in it. Bytes that are unknown are 0."""

    slots: int  # that may be in it now
    most: int  # at most
    grows: bool = True  # False: begins with the most
    slots_open: int = 0  # slots that are in it
    changed: float = 0.0  # when the number of slots in it changed last, or memory ran out
    next: float = 0.0  # when slots elsewhere are listened to again
    total: int = 0
    empty: int = 0  # that were free without a slot in it
    free: int | None = None  # the least since the last change
    slot: int = 0  # that one slot took at most, or states as its need
    busy: list[float] = field(default_factory=list)  # parts of the time since the last change
    ran_out_at: int = 0  # the fewest slots with which memory ran out; 0: it did not
    ran_out: dict[Fingerprint, int] = field(default_factory=dict)  # cells, with how many slots

    def note_ran_out(self, cell: Fingerprint, slots_open: int, enough: int, now: float) -> None:
        """Memory ran out under a cell with so many slots in it; `enough` cells prove that it is not
        the cell's fault."""
        self.ran_out[cell] = min(slots_open, self.ran_out.get(cell, slots_open))
        if len(self.ran_out) >= enough:
            slots = max(self.ran_out.values())
            self.ran_out_at = min(slots, self.ran_out_at or slots)
            self.ran_out.clear()
        self.restart(now)

    def see(self, room: MemoryState) -> None:
        """Record what is free now."""
        self.total = room.total
        self.free = min(room.free, room.free if self.free is None else self.free)
        if room.busy is not None:
            self.busy.append(room.busy)

    def restart(self, now: float) -> None:
        """Forget what was seen before the number of slots changed, or memory ran out."""
        self.changed, self.free, self.busy = now, None, []


class Target(NamedTuple):
    """How many slots may share a memory from now on."""

    slots: int
    why: str = ""  # where the number changes


def target_slots(use: MemoryUse, now: float) -> Target:
    """Fewer at once where memory ran out or is short; more where it was ample for a while.

    Memory never gets as many slots again as it ran out with. A slot is opened only where more stays
    free than the limit below which one is closed, so that the number does not swing. The number
    doubles at most.
    """
    most = max(1, min(use.most, use.ran_out_at - 1) if use.ran_out_at else use.most)
    if use.slots > most or not use.grows:
        return Target(most, f"memory ran out with {use.ran_out_at}")
    if not use.total or use.free is None or now - use.changed < SETTLE_S:
        return Target(use.slots)
    room = f"{use.free / 1e9:.1f} of {use.total / 1e9:.1f} GB are free"
    if use.free < SHORT * use.total and use.slots_open > 1:
        return Target(max(1, min(use.slots, use.slots_open) - 1), f"only {room}")
    spare = int(use.free - ROOM * use.total)
    fit = spare // use.slot if use.slot else int(spare > 0)
    more = min(fit, use.slots, most - use.slots)
    is_busy = bool(use.busy) and sum(use.busy) / len(use.busy) >= BUSY
    if use.slots_open < use.slots or is_busy or more <= 0:
        return Target(use.slots)
    return Target(use.slots + more, room)
