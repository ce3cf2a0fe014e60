"""Which slots compute on the same GPU."""

from __future__ import annotations

from benchfleet.domain.resource import Device
from benchfleet.runner.resources.slot import Slot


class GpuSharing:
    """Follows which slots have been given work on which GPU."""

    def __init__(self) -> None:
        self._seated: dict[Device, list[Slot]] = {}

    def began(self, slot: Slot) -> None:
        """A slot took an attempt up."""
        for device in _gpus(slot):
            before = self._seated.get(device, [])
            self._seated[device] = [slot, *(one for one in before if _works(one, slot))]

    def beside(self, slot: Slot) -> int:
        """How many other slots have work on its GPUs now; at most on any of them."""
        counts = (
            sum(_works(one, slot) for one in self._seated.get(device, ())) for device in _gpus(slot)
        )
        return max(counts, default=0)


def _gpus(slot: Slot) -> list[Device]:
    return [device for device in slot.spec.devices if device.kind == "gpu"]


def _works(one: Slot, beside: Slot) -> bool:
    return one is not beside and one.attempt is not None
