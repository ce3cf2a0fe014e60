"""Opens more slots in each memory while there is room, and fewer where it ran out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.resource import CPU, MemoryState
from benchfleet.runner.events import EventQueue, MemoryMeasured
from benchfleet.runner.resources.autoscale import MemoryUse, target_slots
from benchfleet.runner.resources.shapes import Pool, memories, memory_of
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState

MEASURE_EVERY_S = 5.0
CELLS_THAT_RAN_OUT = 2  # one alone may itself be at fault; where slots grow one is enough

Measure = Callable[[bool, Callable[[Mapping[str, MemoryState]], None]], None]


def measure_nothing(gpus: bool, tell: Callable[[Mapping[str, MemoryState]], None]) -> None:
    """For a machine of which nothing is known."""


class Autoscaler:
    """Sets how many slots may be in each memory, by what was free in it and when it ran out.

    Slots on other machines report what is free there, and only while they run cells.
    """

    def __init__(
        self,
        *,
        inbox: EventQueue,
        state: RunState,
        slots: Slots,
        pools: Callable[[], Sequence[Pool]],
        measure: Measure,
    ) -> None:
        self._inbox, self._state, self._slots = inbox, state, slots
        self._pools, self._measure = pools, measure
        self._uses: dict[str, MemoryUse] = {}
        self._next, self._measuring = 0.0, False

    def ran_out(self, slot: Slot, cell: Fingerprint) -> None:
        """Memory ran out under a cell in this slot, which may have ended because of it."""
        names = {memory_of(device) for device in slot.spec.devices}
        for pool in self._pools():
            for memory in names.intersection(memories(pool)):
                inside = {one.id for one in self._inside([memory])[memory]} | {slot.id}
                if len(inside) > 1:
                    enough = 1 if pool.begin else CELLS_THAT_RAN_OUT
                    use = self._use_of(memory, pool)
                    use.note_ran_out(cell, len(inside), enough, self._inbox.now())

    def look(self) -> None:
        """Set the number of slots of each memory that grows, or that ran out."""
        watched = {
            memory: pool
            for pool in self._pools()
            if pool.begin or self._uses
            for memory in memories(pool)
            if pool.begin or memory in self._uses
        }
        if not watched:
            return
        now, inside = self._inbox.now(), self._inside(watched)
        stated = max((slot.spec.memory for slot in self._slots), default=0)
        for memory, pool in watched.items():
            use = self._use_of(memory, pool)
            use.slot = max(use.slot, stated)
            if len(inside[memory]) != use.slots_open:
                use.slots_open = len(inside[memory])
                use.restart(now)
            target = target_slots(use, now)
            if target.slots != use.slots:
                message = f"{memory}: {target.slots} slots at a time instead of {use.slots}"
                self._state.notify("slots_changed", message=f"{message}: {target.why}")
                use.slots = target.slots
                use.restart(now)
            self._close_surplus(inside[memory], use.slots)
        self._slots.limit({memory: self._uses[memory].slots for memory in watched})
        self._measure_again(now, watched.values())

    def measured(self, event: MemoryMeasured) -> None:
        """Take in what this machine has free."""
        self._measuring = False
        for memory, room in event.free_memory.items():
            if (use := self._uses.get(memory)) is None:
                continue
            use.see(room)
            if not use.slots_open:
                use.empty = room.free
            elif use.empty:
                use.slot = max(use.slot, (use.empty - room.free) // use.slots_open)

    def read_memory(self, slot: Slot) -> None:
        """Take in what a slot on another machine read there last."""
        now, reading = self._inbox.now(), slot.display.reading
        if reading is None:
            return
        own = {f"gpu:{gpu.index}": gpu.own for gpu in reading.gpus} | {CPU: reading.ram}
        for name, room in reading.room().items():
            use = self._uses.get(f"{slot.spec.host}/{name}")
            if use is None or not use.slots_open:
                continue
            use.slot = max(use.slot, own.get(name) or (room.total - room.free) // use.slots_open)
            if now >= use.next:
                use.next = now + MEASURE_EVERY_S
                use.see(room)

    def _use_of(self, memory: str, pool: Pool) -> MemoryUse:
        most = pool.slots if pool.devices[0].kind == "cpu" else pool.slots_per_device
        if memory not in self._uses:
            begin = pool.begin or most
            self._uses[memory] = MemoryUse(slots=begin, most=most, grows=bool(pool.begin))
        self._uses[memory].most = most  # devices may have been added
        return self._uses[memory]

    def _inside(self, memories_watched: Collection[str]) -> dict[str, list[Slot]]:
        """The slots in each of these memories."""
        result: dict[str, list[Slot]] = {memory: [] for memory in memories_watched}
        for slot in self._slots:
            for memory in {memory_of(device) for device in slot.spec.devices}:
                if memory in result:
                    result[memory].append(slot)
        return result

    def _close_surplus(self, inside: Sequence[Slot], slots: int) -> None:
        """End the slots that are too many, idle ones first."""
        staying = [slot for slot in inside if not slot.closing and not slot.draining]
        surplus = len(staying) - slots
        for slot in sorted(staying, key=lambda slot: not slot.idle)[: max(0, surplus)]:
            if slot.idle:
                self._slots.retire(slot)
            else:
                slot.draining = True
                self._slots.reindex(slot)

    def _measure_again(self, now: float, pools: Iterable[Pool]) -> None:
        grows = [pool for pool in pools if pool.begin and not pool.host]
        if not grows or self._measuring or now < self._next:
            return
        self._next, self._measuring = now + MEASURE_EVERY_S, True
        gpus = any(device.kind == "gpu" for pool in grows for device in pool.devices)
        self._measure(gpus, lambda result: self._inbox.post(MemoryMeasured(free_memory=result)))
