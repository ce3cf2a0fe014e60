"""How many slots share each memory of a run: fewer where it ran out, more while there is room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.resource import CPU, Headroom
from benchfleet.runner.course import Course
from benchfleet.runner.events import EventQueue, Measured
from benchfleet.runner.slots.adapt import Seen, seats_wanted
from benchfleet.runner.slots.place import Pool, memories, memory_of
from benchfleet.runner.slots.slot import Slot
from benchfleet.runner.slots.slots import Slots

MEASURE_EVERY = 5.0  # seconds
CELLS_THAT_RAN_OUT = 2  # one alone may itself be at fault; where slots grow one says enough

Measure = Callable[[bool, Callable[[Mapping[str, Headroom]], None]], None]


def measure_nothing(gpus: bool, tell: Callable[[Mapping[str, Headroom]], None]) -> None:
    """For a machine of which nothing is known."""


@dataclass(kw_only=True)
class Shared:
    """One memory, as it was seen since the number of slots in it changed."""

    seats: int
    taken: int = 0
    since: float = 0.0  # on the inbox's clock
    next: float = 0.0  # when slots elsewhere are listened to again
    total: int = 0
    empty: int = 0  # bytes that were free when no slot was in it
    least: int | None = None  # bytes that were free
    slot: int = 0  # bytes that one slot took at most, in all of the run
    busy: list[float] = field(default_factory=list)
    ran_out_at: int = 0
    cells: dict[Fingerprint, int] = field(default_factory=dict)  # that ran out, with how many slots

    def note(self, cell: Fingerprint, taken: int, enough: int, now: float) -> None:
        """Memory ran out under a cell with so many slots in it; `enough` cells say that it is not
        the cell's fault."""
        self.cells[cell] = min(taken, self.cells.get(cell, taken))
        if len(self.cells) >= enough:
            with_ = max(self.cells.values())
            self.ran_out_at = min(with_, self.ran_out_at or with_)
            self.cells.clear()
        self.begin_anew(now)

    def see(self, room: Headroom) -> None:
        """What it has free now."""
        self.total = room.total
        self.least = min(room.free, room.free if self.least is None else self.least)
        if room.busy is not None:
            self.busy.append(room.busy)

    def begin_anew(self, now: float) -> None:
        """The number of slots changed, or memory ran out."""
        self.since, self.least, self.busy = now, None, []


class Crowd:
    """Follows what every memory has free and when it ran out, and says how many slots may be in it.

    Of other machines it is told by the slots there, and so only while they run cells.
    """

    def __init__(
        self,
        *,
        inbox: EventQueue,
        course: Course,
        slots: Slots,
        pools: Callable[[], Sequence[Pool]],
        measure: Measure,
    ) -> None:
        self._inbox, self._course, self._slots = inbox, course, slots
        self._pools, self._measure = pools, measure
        self._shared: dict[str, Shared] = {}
        self._next, self._measuring = 0.0, False

    def ran_out(self, slot: Slot, cell: Fingerprint) -> None:
        """Memory ran out under a cell in this slot, which may have ended of it."""
        names = {memory_of(device) for device in slot.spec.devices}
        for pool in self._pools():
            for memory in names.intersection(memories(pool)):
                inside = {one.id for one in self._inside([memory])[memory]} | {slot.id}
                if len(inside) > 1:
                    enough = 1 if pool.begin else CELLS_THAT_RAN_OUT
                    self._of(memory, pool).note(cell, len(inside), enough, self._inbox.now())

    def look(self) -> None:
        """Bring the number of slots in each memory to what is wanted now. Where slots do not grow
        and memory did not run out there is nothing to see to."""
        watched = {
            memory: pool
            for pool in self._pools()
            if pool.begin or self._shared
            for memory in memories(pool)
            if pool.begin or (memory in self._shared and self._shared[memory].ran_out_at)
        }
        if not watched:
            return
        now, inside = self._inbox.now(), self._inside(watched)
        for memory, pool in watched.items():
            shared = self._of(memory, pool)
            if len(inside[memory]) != shared.taken:
                shared.taken = len(inside[memory])
                shared.begin_anew(now)
            wanted = seats_wanted(self._seen(shared, pool, now))
            if wanted.seats != shared.seats:
                told = f"{memory}: {wanted.seats} slots at a time instead of {shared.seats}"
                self._course.say("slots_changed", message=f"{told}: {wanted.why}")
                shared.seats = wanted.seats
                shared.begin_anew(now)
            self._close_surplus(inside[memory], shared.seats)
        self._slots.limit({memory: self._shared[memory].seats for memory in watched})
        self._measure_again(now, watched.values())

    def measured(self, event: Measured) -> None:
        """What this machine has free."""
        self._measuring = False
        for memory, room in event.found.items():
            if (shared := self._shared.get(memory)) is None:
                continue
            shared.see(room)
            if not shared.taken:
                shared.empty = room.free
            elif shared.empty:
                shared.slot = max(shared.slot, (shared.empty - room.free) // shared.taken)

    def heard(self, slot: Slot) -> None:
        """What a slot on another machine read there last."""
        now, reading = self._inbox.now(), slot.shown.reading
        if reading is None:
            return
        own = {f"gpu:{gpu.index}": gpu.own for gpu in reading.gpus} | {CPU: reading.ram}
        for name, room in reading.room().items():
            shared = self._shared.get(f"{slot.spec.host}/{name}")
            if shared is None or not shared.taken:
                continue
            takes = own.get(name) or (room.total - room.free) // shared.taken
            shared.slot = max(shared.slot, takes)
            if now >= shared.next:
                shared.next = now + MEASURE_EVERY
                shared.see(room)

    def _of(self, memory: str, pool: Pool) -> Shared:
        if memory not in self._shared:
            self._shared[memory] = Shared(seats=pool.begin or _most(pool))
        return self._shared[memory]

    def _inside(self, wanted: Collection[str]) -> dict[str, list[Slot]]:
        """The slots in each of these memories."""
        found: dict[str, list[Slot]] = {memory: [] for memory in wanted}
        for slot in self._slots:
            for memory in {memory_of(device) for device in slot.spec.devices}:
                if memory in found:
                    found[memory].append(slot)
        return found

    def _seen(self, shared: Shared, pool: Pool, now: float) -> Seen:
        stated = max((slot.spec.memory for slot in self._slots), default=0)
        return Seen(
            seats=shared.seats,
            taken=shared.taken,
            most=_most(pool),
            quiet=now - shared.since,
            grows=bool(pool.begin),
            total=shared.total if shared.least is not None else 0,
            free=shared.least or 0,
            slot=max(shared.slot, stated),
            busy=sum(shared.busy) / len(shared.busy) if shared.busy else None,
            ran_out_at=shared.ran_out_at,
        )

    def _close_surplus(self, inside: Sequence[Slot], seats: int) -> None:
        """Have what is too much end, first what has nothing to do."""
        staying = [slot for slot in inside if not slot.closing and not slot.left_out]
        surplus = len(staying) - seats
        for slot in sorted(staying, key=lambda slot: not slot.idle)[: max(0, surplus)]:
            if slot.idle:
                self._slots.retire(slot)
            else:
                slot.left_out = True
                self._slots.count(slot)

    def _measure_again(self, now: float, pools: Iterable[Pool]) -> None:
        grows = [pool for pool in pools if pool.begin and not pool.host]
        if not grows or self._measuring or now < self._next:
            return
        self._next, self._measuring = now + MEASURE_EVERY, True
        gpus = any(device.kind == "gpu" for pool in grows for device in pool.devices)
        self._measure(gpus, lambda found: self._inbox.post(Measured(found=found)))


def _most(pool: Pool) -> int:
    """Slots that one memory of the pool is to hold at most."""
    return pool.slots if pool.devices[0].kind == "cpu" else pool.seats
