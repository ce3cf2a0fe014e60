"""One engine for the slots of this machine and of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchfleet.domain.resource import Need
from benchfleet.engines.base import Engine, Post, SlotId
from benchfleet.engines.slot_router import SlotRouter


class CompositeEngine(SlotRouter):
    """Passes each call to the engine of the slot's machine; see `benchfleet.engines.base`.

    `local` opens the slots of this machine; each of `remote` those of the hosts that it names.
    """

    def __init__(self, post: Post, local: Engine, remote: Sequence[Engine]) -> None:
        super().__init__(post)
        self._local, self._remote = local, remote

    def expect(self, waiting: Mapping[Need, int]) -> None:
        for engine in (self._local, *self._remote):
            engine.expect(waiting)

    def shutdown(self) -> None:
        for engine in (*self._remote, self._local):
            engine.shutdown()

    def slots(self) -> Sequence[SlotId]:
        return [slot for engine in (self._local, *self._remote) for slot in engine.slots()]

    def hosts(self) -> Sequence[str]:
        return [host for engine in self._remote for host in engine.hosts()]

    def _engine_of(self, host: str) -> Engine | None:
        if not host:
            return self._local
        return next((engine for engine in self._remote if host in engine.hosts()), None)
