"""The slots that a runner has open: their devices, what they do, and what is in their memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.attempt import Claim
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Choice, Device, Offer
from benchfleet.domain.usage import Rate
from benchfleet.engines.base import Engine, Order, SlotId, SlotSpec
from benchfleet.results.layout import Layout
from benchfleet.runner.attempts import Attempt
from benchfleet.runner.place import Pool, Shape, memory_of, next_group
from benchfleet.runner.progress import Progress, Running
from benchfleet.runner.usage import rate_of


@dataclass(kw_only=True)
class Slot:
    """One open slot, as the runner sees it."""

    spec: SlotSpec
    width: int  # devices that its cells need
    shown: Running
    alone: bool = False  # no other slot is in the memory that it has
    ready: bool = False
    closing: bool = False  # it takes no other order
    left_out: bool = False  # nor does it after the one at hand
    load_key: str = ""  # the model in its memory
    attempt: Attempt | None = None
    reserved: Claim | None = None  # the claim that a starting slot was opened for
    rate: Rate = field(default_factory=Rate)  # what it holds of its machine, and what that costs

    @property
    def id(self) -> SlotId:
        return self.spec.slot

    @property
    def idle(self) -> bool:
        return self.ready and not self.closing and self.attempt is None

    @property
    def will_claim(self) -> bool:
        """It is idle, or about to be."""
        return not self.closing and self.attempt is None and self.reserved is None

    @property
    def memory(self) -> int:
        """Bytes of the smallest of its GPUs; 0 on the CPU."""
        return min((d.memory for d in self.spec.devices if d.kind == "gpu"), default=0)

    def suits(self, memory: int, *, gpu: bool) -> bool:
        """Whether a cell with this need could run in it."""
        has_gpu = any(device.kind == "gpu" for device in self.spec.devices)
        return self.memory >= memory and (has_gpu or not gpu)

    def takes(self, shape: Shape) -> bool:
        """Whether it was opened for such cells."""
        same = (self.width, self.alone) == (shape.width, shape.alone)
        return same and self.memory >= shape.memory

    def offer(self, among: Choice) -> Offer:
        """What the slot can take now."""
        gpus = [device for device in self.spec.devices if device.kind == "gpu"]
        return Offer(
            gpus=len(gpus),
            vram=self.memory,
            models={self.load_key: -1.0} if self.load_key else {},
            among=among,
        )

    def forget_model_after(self, failure: Failure) -> None:
        """A slot that failed to load, or starts clean after a fault, has nothing in memory."""
        if failure.stage == "load" or failure.kind in {"oom", "gpu_fault"}:
            self.load_key = ""

    def free(self) -> None:
        """It has nothing to do; whoever calls this ends the attempt."""
        self.attempt = None
        self.shown.rest()


class Slots:
    """Opens, feeds and closes slots on the pools of one or several machines."""

    def __init__(self, prefix: str, engine: Engine, layout: Layout, progress: Progress) -> None:
        self._prefix, self._engine = prefix, engine
        self._layout, self.progress = layout, progress
        self._pools: Sequence[Pool] = ()
        self._open: dict[SlotId, Slot] = {}
        self._opened = 0
        self._limits: Mapping[str, int] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._open.values()))

    def get(self, slot: SlotId) -> Slot | None:
        return self._open.get(slot)

    def use(self, pools: Sequence[Pool]) -> None:
        """Open further slots on these pools alone."""
        self._pools = pools

    def room_for(
        self, shape: Shape, memory: int = 0, *, gpu: bool = False
    ) -> tuple[Device, ...] | None:
        """The devices that one more slot would have, of this shape and least memory (bytes)."""
        taken = [slot.spec.devices for slot in self]
        kept = {device for slot in self if slot.alone for device in slot.spec.devices}
        width, alone = shape.width, shape.alone
        return next_group(
            self._pools, taken, width, memory, gpu=gpu, alone=alone, kept=kept, full=self._full()
        )

    def limit(self, limits: Mapping[str, int]) -> None:
        """Open no more slots than these in each memory."""
        self._limits = limits

    def _full(self) -> set[str]:
        """The memories that hold as many slots as they may."""
        taken: Counter[str] = Counter()
        for slot in self if self._limits else ():
            taken.update({memory_of(device) for device in slot.spec.devices})
        return {memory for memory, most in self._limits.items() if taken[memory] >= most}

    def open(
        self,
        devices: tuple[Device, ...],
        width: int,
        *,
        alone: bool = False,
        reserved: Claim | None = None,
        memory: int = 0,
    ) -> Slot:
        self._opened += 1
        name = SlotId(f"{self._prefix}-{self._opened}")
        pool = next((p for p in self._pools if p.host == devices[0].host), None)
        spec = SlotSpec(
            slot=name,
            devices=devices,
            threads=pool.threads if pool else 1,
            log=str(self._layout.slot_log(name)),
            python=reserved.cell.model.python if reserved else "",
            memory=reserved.cell.need.vram if reserved else memory,
            neighbours=sum(not set(devices).isdisjoint(slot.spec.devices) for slot in self),
        )
        shown = Running(slot=name, devices=label(devices))
        rate = rate_of(devices, pool, alone=alone)
        slot = Slot(spec=spec, width=width, shown=shown, alone=alone, reserved=reserved, rate=rate)
        self._open[name] = slot
        self.progress.slots[name] = shown
        self._engine.open(spec)
        return slot

    def start(self, slot: Slot, attempt: Attempt) -> None:
        """Hand the attempt to the slot."""
        slot.attempt = attempt
        slot.load_key = attempt.claim.cell.model.load_key
        slot.shown.take(attempt.claim.path, done=attempt.done, now=attempt.began)
        order = Order(
            attempt=attempt.key,
            cell=attempt.claim.cell,
            log=str(attempt.folder.log),
            recorded=attempt.recorded,
            batch_size=attempt.claim.batch_size,
        )
        self._engine.run(slot.id, order)

    def retire(self, slot: Slot) -> None:
        """Close an idle slot; it holds its devices until it is gone."""
        slot.closing = True
        self._engine.close(slot.id)

    def kill(self, slot: Slot) -> None:
        """End a slot now; it holds its devices until it is gone."""
        slot.closing = True
        slot.free()
        self._engine.kill(slot.id)

    def gone(self, slot: Slot) -> None:
        """Its process ended: its devices are free."""
        self._open.pop(slot.id, None)
        self.progress.slots.pop(slot.id, None)


def label(devices: tuple[Device, ...]) -> str:
    """``gpu:0``, ``lab2/gpu:0``, or ``gpu:0+1`` for a slot on two."""
    return "+".join([devices[0].label, *(str(device.index) for device in devices[1:])])
