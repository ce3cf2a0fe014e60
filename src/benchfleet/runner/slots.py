"""The slots that a runner has open: their devices, what they do, and what is in their memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchfleet.domain.attempt import Claim
from benchfleet.domain.resource import Device, Offer
from benchfleet.engines.base import Engine, Order, SlotId, SlotSpec
from benchfleet.results.layout import Layout
from benchfleet.runner.attempts import Attempt
from benchfleet.runner.place import Pool, next_group
from benchfleet.runner.progress import Progress, Running


@dataclass(kw_only=True)
class Slot:
    """One open slot, as the runner sees it."""

    spec: SlotSpec
    width: int  # devices that its cells need
    shown: Running
    ready: bool = False
    closing: bool = False  # it takes no other order
    load_key: str = ""  # the model in its memory
    attempt: Attempt | None = None
    reserved: Claim | None = None  # the claim that a starting slot was opened for

    @property
    def id(self) -> SlotId:
        return self.spec.slot

    @property
    def idle(self) -> bool:
        return self.ready and not self.closing and self.attempt is None

    def offer(self, among: frozenset[str]) -> Offer:
        """What the slot can take now."""
        gpus = [device for device in self.spec.devices if device.kind == "gpu"]
        return Offer(
            gpus=len(gpus),
            vram=min((device.memory for device in gpus), default=0),
            loaded=(self.load_key,) if self.load_key else (),
            among=among,
        )

    def free(self) -> None:
        """It has nothing to do; whoever calls this ends the attempt."""
        self.attempt = None
        self.shown.rest()


class Slots:
    """Opens, feeds and closes slots on a pool of devices."""

    def __init__(
        self, prefix: str, engine: Engine, pool: Pool, layout: Layout, progress: Progress
    ) -> None:
        self._prefix, self._engine, self._pool = prefix, engine, pool
        self._layout, self._progress = layout, progress
        self._open: dict[SlotId, Slot] = {}
        self._opened = 0

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._open.values()))

    def get(self, slot: SlotId) -> Slot | None:
        return self._open.get(slot)

    def room_for(self, width: int) -> tuple[Device, ...] | None:
        """The devices that one more slot of this width would have."""
        return next_group(self._pool, [slot.spec.devices for slot in self], width)

    def open(
        self, devices: tuple[Device, ...], width: int, *, reserved: Claim | None = None
    ) -> Slot:
        self._opened += 1
        name = SlotId(f"{self._prefix}-{self._opened}")
        spec = SlotSpec(
            slot=name,
            devices=devices,
            threads=self._pool.threads,
            log=str(self._layout.slot_log(name)),
            python=reserved.cell.model.python if reserved else "",
        )
        shown = Running(slot=name, devices=label(devices))
        slot = Slot(spec=spec, width=width, shown=shown, reserved=reserved)
        self._open[name] = slot
        self._progress.slots[name] = shown
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
        self._progress.slots.pop(slot.id, None)


def label(devices: tuple[Device, ...]) -> str:
    """``gpu:0``, or ``gpu:0+1`` for a slot on two."""
    return f"{devices[0].kind}:" + "+".join(str(device.index) for device in devices)
