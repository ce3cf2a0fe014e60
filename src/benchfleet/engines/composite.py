"""One engine for the slots of this machine and of others."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.engines.base import AttemptRequest, Engine, SlotId, SlotSpec


class CompositeEngine:
    """Passes each call to the engine of the slot's machine; see `benchfleet.engines.base`.

    `local` opens the slots of this machine; each of `remote` those of the hosts that it names.
    """

    def __init__(self, local: Engine, remote: Sequence[Engine]) -> None:
        self._local, self._remote = local, remote
        self._engines: dict[SlotId, Engine] = {}

    def open(self, spec: SlotSpec) -> None:
        self._engines[spec.slot] = engine = self._engine_of(spec.host)
        engine.open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        self._engines[slot].run(slot, request)

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._engines[slot].stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        self._engines[slot].close(slot)

    def kill(self, slot: SlotId) -> None:
        self._engines[slot].kill(slot)

    def shutdown(self) -> None:
        for engine in (*self._remote, self._local):
            engine.shutdown()

    def slots(self) -> Sequence[SlotId]:
        return [slot for engine in (self._local, *self._remote) for slot in engine.slots()]

    def hosts(self) -> Sequence[str]:
        return [host for engine in self._remote for host in engine.hosts()]

    def _engine_of(self, host: str) -> Engine:
        """The engine that names the host; the first remote one if none does any more, which then
        reports that the host is lost."""
        if not host:
            return self._local
        return next((e for e in self._remote if host in e.hosts()), self._remote[0])
