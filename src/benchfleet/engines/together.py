"""This machine's slots and those of other machines, as one engine."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.engines.base import Engine, Order, SlotId, SlotSpec


class Together:
    """Hands each slot to the engine of its machine; see `benchfleet.engines.base`."""

    def __init__(self, here: Engine, there: Engine) -> None:
        self._here, self._there = here, there
        self._engines: dict[SlotId, Engine] = {}

    def open(self, spec: SlotSpec) -> None:
        self._engines[spec.slot] = self._there if spec.host else self._here
        self._engines[spec.slot].open(spec)

    def run(self, slot: SlotId, order: Order) -> None:
        self._engines[slot].run(slot, order)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._engines[slot].stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        self._engines[slot].close(slot)

    def kill(self, slot: SlotId) -> None:
        self._engines[slot].kill(slot)

    def shutdown(self) -> None:
        self._there.shutdown()
        self._here.shutdown()

    def slots(self) -> Sequence[SlotId]:
        return [*self._here.slots(), *self._there.slots()]

    def hosts(self) -> Sequence[str]:
        return [*self._here.hosts(), *self._there.hosts()]
