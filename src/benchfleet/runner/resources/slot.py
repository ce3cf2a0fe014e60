"""One open slot: its devices, what it does, and what is in its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchfleet.domain.attempt import Claim
from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Device
from benchfleet.domain.usage import Rate
from benchfleet.engines.base import SlotId, SlotSpec
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.progress import Running
from benchfleet.runner.resources.shapes import SlotShape


@dataclass(kw_only=True)
class Slot:
    """One open slot, as the runner sees it."""

    spec: SlotSpec
    width: int  # devices that its cells need
    display: Running
    alone: bool = False  # no other slot is in the memory that it has
    ready: bool = False
    closing: bool = False  # it takes no other order
    draining: bool = False  # nor does it after the one at hand
    load_key: str = ""  # the model in its memory
    attempt: Attempt | None = None
    waiting_claim: Claim | None = None  # that this slot, or the one after it, begins with
    rate: Rate = field(default_factory=Rate)  # what it holds of its machine, and what that costs
    opened_for: str = ""  # the model that it was opened for, until it has one
    holds: int = 0  # bytes of each GPU that its cells state as their need
    freed: Callable[[Slot], None] = lambda slot: None  # called just before it becomes idle

    @property
    def id(self) -> SlotId:
        return self.spec.slot

    @property
    def idle(self) -> bool:
        return self.ready and not self.closing and self.attempt is None

    @property
    def will_claim(self) -> bool:
        """It is idle, or about to be."""
        return not self.closing and self.attempt is None and self.waiting_claim is None

    @property
    def memory(self) -> int:
        """Bytes of the smallest of its GPUs; 0 on the CPU."""
        return min((d.memory for d in self.spec.devices if d.kind == "gpu"), default=0)

    def takes(self, shape: SlotShape) -> bool:
        """Whether it was opened for such cells; see `SlotShape.suits`."""
        same = (self.width, self.endpoint, self.alone) == shape[:3]
        fits = same and self.memory >= shape.memory
        return fits and shape.suits(self.spec.host)

    @property
    def device_type(self) -> str:
        return self.spec.devices[0].type

    @property
    def endpoint(self) -> str:
        """The server elsewhere that its cells ask; ``""`` for a slot on devices of a machine."""
        device = self.spec.devices[0]
        return device.name if device.kind == "endpoint" else ""

    @property
    def gpus(self) -> int:
        return sum(device.kind == "gpu" for device in self.spec.devices)

    def is_like(self, other: Slot) -> bool:
        """Whether it would be offered what the other is."""
        ours, theirs = (
            (one.load_key, one.holds, one.gpus, one.device_type, one.spec.host, one.spec.python)
            for one in (self, other)
        )
        return ours == theirs

    def forget_model_after(self, failure: Failure) -> None:
        """A slot that failed to load, or starts clean after a fault, has nothing in memory."""
        if failure.stage in ("fit", "pull", "load") or failure.kind in {"oom", "gpu_fault"}:
            self.load_key = ""

    def free(self) -> None:
        """Clear the attempt, which the caller ends."""
        self.freed(self)
        self.attempt = None
        self.display.rest()


def label(devices: tuple[Device, ...]) -> str:
    """``gpu:0``, ``lab2/gpu:0``, or ``gpu:0+1`` for a slot on two."""
    return "+".join([devices[0].label, *(str(device.index) for device in devices[1:])])
