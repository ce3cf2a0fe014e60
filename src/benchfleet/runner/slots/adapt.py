"""How many slots are to share one memory: a pure function over what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass

SETTLE = 30.0  # seconds in which what slots take shows, after their number changed
SHORT = 0.05  # part of the memory: with less free, slots are too many
ROOM = 0.15  # part of the memory that stays free where one more slot is opened
BUSY = 0.9  # part of the time in which a device computes: one more slot brings nothing


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One memory and the slots in it. Bytes of which nothing is known are 0."""

    seats: int  # slots that may be in it now
    taken: int  # slots that are
    most: int  # slots that are wanted at most
    quiet: float  # seconds since the number of slots in it changed, or memory ran out
    grows: bool = True  # False: as many as were asked for, less where memory ran out
    total: int = 0
    free: int = 0  # the least that was free since then
    slot: int = 0  # what one slot took at most, or is said to need
    busy: float | None = None  # part of the time since then; None: not known
    ran_out_at: int = 0  # the fewest slots with which memory ran out in this run; 0: it did not


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How many slots may share a memory from now on, and why that is another number."""

    seats: int
    why: str = ""  # to be read only where it is another number


def seats_wanted(seen: Seen) -> Wanted:
    """Fewer at once where memory ran out or is short, more where it was ample for a while.

    Slots are opened only where more memory stays free than that below which one is closed, and
    never again as many as memory ran out with, so that the number does not swing. As many as are
    there are opened at once, where all have room.
    """
    most = max(1, min(seen.most, seen.ran_out_at - 1) if seen.ran_out_at else seen.most)
    if seen.seats > most or not seen.grows:
        return Wanted(seats=most, why=f"memory ran out with {seen.ran_out_at}")
    if not seen.total or seen.quiet < SETTLE:
        return Wanted(seats=seen.seats)
    room = f"{seen.free / 1e9:.1f} of {seen.total / 1e9:.1f} GB are free"
    if seen.free < SHORT * seen.total and seen.taken > 1:
        return Wanted(seats=max(1, min(seen.seats, seen.taken) - 1), why=f"only {room}")
    spare = int(seen.free - ROOM * seen.total)
    fit = spare // seen.slot if seen.slot else 1 if spare > 0 else 0
    more = min(max(0, fit), seen.seats, most - seen.seats)
    busy = seen.busy is not None and seen.busy >= BUSY
    if seen.taken < seen.seats or busy or more <= 0:
        return Wanted(seats=seen.seats)
    return Wanted(seats=seen.seats + more, why=room)
