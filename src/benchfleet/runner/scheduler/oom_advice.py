"""The slot that each cell needs, with what the ledger advises after it ran out of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchfleet.domain.attempt import Advice
from benchfleet.domain.cell import Cell
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.attempt.retry_policy import AttemptMemory
from benchfleet.runner.resources.allocator import DeviceAllocator
from benchfleet.runner.resources.shapes import Pool, SlotShape, larger_than
from benchfleet.runner.scheduler.placement_resolver import PlacementResolver


class OomAdvice:
    """Keeps the advice for cells. What no machine of this run has is ignored, as a last resort."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        allocator: DeviceAllocator,
        pools: Callable[[], Sequence[Pool]],
        placement: PlacementResolver,
    ) -> None:
        self._cells, self._allocator, self._pools = cells, allocator, pools
        self._placement = placement
        self._advice: dict[str, Advice] = {}  # that asks for another slot than its cell does

    @property
    def cells(self) -> Iterable[str]:
        """The cells for which there is advice."""
        return self._advice

    def update(self, fingerprint: str, advice: Advice) -> bool:
        """Take the ledger's advice for a cell; whether it needs another slot than before."""
        current = self._advice.get(fingerprint, Advice())
        if (current.alone, current.vram) == (advice.alone, advice.vram):
            return False
        self._advice[fingerprint] = advice
        return True

    def memory_of(self, attempt: Attempt) -> AttemptMemory:
        """The memory that an attempt has now, and could have."""
        devices = attempt.spec.devices
        return AttemptMemory(
            batch_size=attempt.claim.batch_size,
            shared=self._allocator.shared(devices),
            larger=larger_than(devices, self._pools()) if devices[0].kind == "gpu" else 0,
        )

    def shape(self, fingerprint: str) -> SlotShape:
        """The slot that a cell needs."""
        shape = self._placement.shape(fingerprint, self._cells[fingerprint])
        if (advice := self._advice.get(fingerprint)) is None:
            return shape
        alone, floor = shape.alone or (advice.alone and shape.width == 1), advice.vram
        if not floor:
            return shape._replace(alone=alone)
        able = {
            pool.host
            for pool in self._pools()
            if sum(device.memory >= floor for device in pool.devices) >= shape.width
        }
        if not able - shape.excluded_hosts:
            return shape._replace(alone=alone, last_resort=True)
        host = shape.preferred_host if shape.preferred_host in able else None
        return shape._replace(alone=alone, memory=floor, preferred_host=host)
