"""The slots that a runner has open, and the opening, feeding and closing of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchfleet.benchmarks.base import rescores
from benchfleet.domain.attempt import Claim, Lease
from benchfleet.domain.resource import Device
from benchfleet.engines.base import AttemptRequest, Engine, SlotId, SlotSpec
from benchfleet.results.layout import Layout
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.progress import Progress, Running
from benchfleet.runner.resources.allocator import DeviceAllocator
from benchfleet.runner.resources.load_times import LoadTimes
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.resources.slot import Slot, label
from benchfleet.runner.resources.slot_index import SlotIndex, SlotTraits
from benchfleet.runner.resources.usage import rate_of


class Slots:
    """Opens, feeds and closes slots on the pools of one or several machines."""

    def __init__(self, prefix: str, engine: Engine, layout: Layout, progress: Progress) -> None:
        self._prefix, self._engine = prefix, engine
        self._layout, self.progress = layout, progress
        self._pools: dict[str, Pool] = {}
        self.allocator = DeviceAllocator()
        self._open: dict[SlotId, Slot] = {}
        self._opened = 0
        # Indexes, so that nothing that happens often walks all slots.
        self._resting: dict[SlotId, Slot] = {}  # those that could begin a cell now
        self._busy: dict[tuple[str, int], Slot] = {}  # by fingerprint and token
        self._busy_with: dict[str, dict[SlotId, Slot]] = {}  # by model
        self._on: dict[Device, dict[SlotId, Slot]] = {}
        self.index, self.load_times = SlotIndex(), LoadTimes()
        self._tells_hosts = False

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._open.values()))

    def get(self, slot: SlotId) -> Slot | None:
        return self._open.get(slot)

    def __len__(self) -> int:
        return len(self._open)

    def use(self, pools: Sequence[Pool]) -> None:
        """Open further slots on these pools alone."""
        self._pools = {pool.host: pool for pool in pools}
        self.allocator.use(pools)

    def tell_hosts(self) -> None:
        """Count the slots of each machine apart from now on."""
        if not self._tells_hosts:
            self._tells_hosts = True
            for slot in self:
                self.reindex(slot)

    def limit(self, limits: Mapping[str, int]) -> None:
        """Open no more slots than these in each memory."""
        self.allocator.limit(limits)

    @property
    def idle(self) -> list[Slot]:
        """Those that could begin a cell now."""
        return list(self._resting.values())

    @property
    def any_idle(self) -> bool:
        """Whether a slot could begin a cell now."""
        return bool(self._resting)

    @property
    def all_idle(self) -> bool:
        """Whether no slot starts, runs a cell or ends."""
        return len(self._open) == len(self._resting)

    @property
    def any_busy(self) -> bool:
        """Whether a slot runs a cell."""
        return bool(self._busy)

    @property
    def busy(self) -> list[Slot]:
        """Those that run a cell."""
        return list(self._busy.values())

    def busy_with(self, load_key: str) -> Iterable[Slot]:
        """Those that load this model or run a cell with it."""
        return self._busy_with.get(load_key, {}).values()

    def running(self, lease: Lease) -> Slot | None:
        """The slot that runs the attempt of this lease."""
        return self._busy.get((lease.fingerprint, lease.token))

    def on(self, devices: Iterable[Device]) -> list[Slot]:
        """The slots that have any of these devices, each once."""
        matches: dict[SlotId, Slot] = {}
        for device in devices:
            matches.update(self._on.get(device, {}))
        return list(matches.values())

    def reindex(self, slot: Slot) -> None:
        """Its model, its memory, or whether it takes another order, is not what it was."""
        if slot.closing:
            self._resting.pop(slot.id, None)
        ends = slot.closing or slot.draining or self._is_gone(slot)
        traits = SlotTraits(
            width=slot.width,
            endpoint=slot.endpoint,
            alone=slot.alone,
            memory=slot.memory,
            gpus=slot.gpus,
            holds=slot.holds,
            model=slot.load_key or slot.opened_for,
            starts=not slot.ready and slot.waiting_claim is None,
            host=slot.spec.host if self._tells_hosts else "",
        )
        self.index.note(slot.id, None if ends else traits)

    def ready(self, slot: Slot) -> None:
        """It said hello."""
        slot.ready = True
        slot.display.rest()
        self._resting[slot.id] = slot
        self.reindex(slot)

    def _is_gone(self, slot: Slot) -> bool:
        return self._open.get(slot.id) is not slot

    def _freed(self, slot: Slot) -> None:
        self._end_of(slot)
        if not self._is_gone(slot):
            self._resting[slot.id] = slot

    def _end_of(self, slot: Slot) -> None:
        self.load_times.drop(slot.id)
        if slot.attempt is not None:
            lease = slot.attempt.claim.lease
            self._busy.pop((lease.fingerprint, lease.token), None)
            load_key = slot.attempt.claim.cell.model.load_key
            self._busy_with.get(load_key, {}).pop(slot.id, None)

    def open(
        self,
        devices: tuple[Device, ...],
        width: int,
        *,
        alone: bool = False,
        waiting_claim: Claim | None = None,
        memory: int = 0,
        opened_for: str = "",
    ) -> Slot:
        self._opened += 1
        name = SlotId(f"{self._prefix}-{self._opened}")
        pool = self._pools.get(devices[0].host)
        spec = SlotSpec(
            slot=name,
            devices=devices,
            threads=pool.threads if pool else 1,
            log=str(self._layout.slot_log(name)),
            python=waiting_claim.cell.model.python if waiting_claim else "",
            memory=waiting_claim.cell.need.vram if waiting_claim else memory,
            neighbours=self.allocator.neighbours(devices),
        )
        display = Running(slot=name, devices=label(devices))
        rate = rate_of(devices, pool, alone=alone)
        slot = Slot(
            spec=spec,
            width=width,
            display=display,
            alone=alone,
            waiting_claim=waiting_claim,
            rate=rate,
            opened_for=opened_for,
            holds=spec.memory,
            freed=self._freed,
        )
        self._open[name] = slot
        for device in devices:
            self._on.setdefault(device, {})[name] = slot
        self.allocator.take(devices, whole=alone or width > 1, memory=slot.holds)
        self.reindex(slot)
        self.progress.slots[name] = display
        self._engine.open(spec)
        return slot

    def start(self, slot: Slot, attempt: Attempt) -> None:
        """Hand the attempt to the slot."""
        cell = attempt.claim.cell
        lease = attempt.claim.lease
        slot.attempt = attempt
        self._busy[lease.fingerprint, lease.token] = slot
        self._busy_with.setdefault(cell.model.load_key, {})[slot.id] = slot
        self._resting.pop(slot.id, None)
        if slot.holds != cell.need.vram:
            self.allocator.promise(slot.spec.devices, slot.holds, cell.need.vram)
        if slot.load_key != cell.model.load_key:
            attempt.loads = True
            self.load_times.begin(slot.id, cell.model.load_key, attempt.began)
        if (slot.load_key, slot.holds) != (cell.model.load_key, cell.need.vram):
            slot.load_key, slot.opened_for = cell.model.load_key, ""
            slot.holds = cell.need.vram
            self.reindex(slot)
        slot.display.take(attempt.claim.path, done=attempt.done, now=attempt.began)
        request = AttemptRequest(
            attempt=attempt.key,
            cell=cell,
            log=str(attempt.folder.log),
            recorded=attempt.recorded,
            batch_size=attempt.claim.batch_size,
            rescore=attempt.joined is not None and attempt.joined.complete and rescores(cell),
        )
        self._engine.run(slot.id, request)

    def computes(self, slot: Slot, now: float) -> None:
        """Its cell's benchmark begins, its model being loaded."""
        self.load_times.end(slot.id, now)

    def retire(self, slot: Slot) -> None:
        """Close an idle slot; it holds its devices until it is gone."""
        slot.closing = True
        self.reindex(slot)
        self._engine.close(slot.id)

    def kill(self, slot: Slot) -> None:
        """End a slot now; it holds its devices until it is gone."""
        slot.closing = True
        slot.free()
        self.reindex(slot)
        self._engine.kill(slot.id)

    def closed(self, slot: Slot) -> None:
        """Its process ended: its devices are free."""
        if self._open.pop(slot.id, None) is not None:
            whole = slot.alone or slot.width > 1
            self.allocator.give(slot.spec.devices, whole=whole, memory=slot.holds)
            for device in slot.spec.devices:
                self._on[device].pop(slot.id, None)
        self.reindex(slot)
        self._end_of(slot)
        self._resting.pop(slot.id, None)
        self.progress.slots.pop(slot.id, None)
