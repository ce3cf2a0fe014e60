"""What the slot of each cell is to be: as its cell asks, and as the ledger advises after a lack of
memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchfleet.domain.attempt import Advice
from benchfleet.domain.cell import Cell
from benchfleet.runner.slots.place import Pool, Shape, larger_than
from benchfleet.runner.slots.seats import Seats
from benchfleet.runner.trying.attempt import Attempt
from benchfleet.runner.trying.retry import Memory
from benchfleet.runner.waiting.backlog import Backlog
from benchfleet.runner.waiting.placement import PlacementResolver


class Advised:
    """Heeds advice. What no machine here has of it is done without, after all else."""

    def __init__(
        self,
        cells: Mapping[str, Cell],
        backlog: Backlog,
        seats: Seats,
        pools: Callable[[], Sequence[Pool]],
        placement: PlacementResolver,
    ) -> None:
        self._cells, self._backlog, self._seats, self._pools = cells, backlog, seats, pools
        self._placement = placement
        self._advice: dict[str, Advice] = {}  # that asks for another slot than its cell does
        self._larger: dict[tuple[int, int], int] = {}

    def heed(self, fingerprint: str, advice: Advice) -> bool:
        """Take in what the ledger advises for a cell; whether its slot is to be another now."""
        known = self._advice.get(fingerprint, Advice())
        if (known.alone, known.vram) == (advice.alone, advice.vram):
            return False
        self._advice[fingerprint] = advice
        self._backlog.move(fingerprint, self.shape(fingerprint))
        return True

    def again(self) -> None:
        """Other machines are here: what of it they have may be something else."""
        self._larger.clear()
        for fingerprint in self._advice:
            self._backlog.move(fingerprint, self.shape(fingerprint))

    def memory_of(self, attempt: Attempt) -> Memory:
        """What of memory an attempt has now, and could have."""
        devices = attempt.spec.devices
        size = (len(devices), min(device.memory for device in devices))
        if devices[0].kind == "gpu" and size not in self._larger:
            self._larger[size] = larger_than(devices, self._pools())
        return Memory(
            batch_size=attempt.claim.batch_size,
            shared=self._seats.shared(devices),
            larger=self._larger.get(size, 0) if devices[0].kind == "gpu" else 0,
        )

    def shape(self, fingerprint: str) -> Shape:
        """What its slot is to be."""
        shape = self._placement.shape(fingerprint, self._cells[fingerprint])
        advice = self._advice.get(fingerprint, Advice())
        alone, floor = advice.alone and shape.width == 1, advice.vram
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
