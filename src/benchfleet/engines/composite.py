"""One engine for the slots of this machine and of others."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.engines.base import AttemptRequest, Engine, SlotId, SlotSpec


class CompositeEngine:
    """Passes each call to the engine of the slot's machine; see `benchfleet.engines.base`."""

    def __init__(self, local: Engine, remote: Engine) -> None:
        self._local, self._remote = local, remote
        self._engines: dict[SlotId, Engine] = {}

    def open(self, spec: SlotSpec) -> None:
        self._engines[spec.slot] = self._remote if spec.host else self._local
        self._engines[spec.slot].open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self._engines[slot].run(slot, request)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._engines[slot].stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        self._engines[slot].close(slot)

    def kill(self, slot: SlotId) -> None:
        self._engines[slot].kill(slot)

    def shutdown(self) -> None:
        self._remote.shutdown()
        self._local.shutdown()

    def slots(self) -> Sequence[SlotId]:
        return [*self._local.slots(), *self._remote.slots()]

    def hosts(self) -> Sequence[str]:
        return [*self._local.hosts(), *self._remote.hosts()]
