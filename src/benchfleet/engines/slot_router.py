"""Passes the calls of each slot to the engine that opened it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from benchfleet.engines.base import AttemptRequest, Engine, Post, SlotId, SlotLost, SlotSpec


class SlotRouter(ABC):
    """The calls of an engine that has other engines inside; see `benchfleet.engines.base`."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._engines: dict[SlotId, Engine] = {}

    @abstractmethod
    def _engine_of(self, host: str) -> Engine | None:
        """The engine that opens slots on a host; None if there is none."""

    def open(self, spec: SlotSpec) -> None:
        engine = self._engine_of(spec.host)
        if engine is None:  # it left after the runner chose it
            reason = f"{spec.host} is no host any more"
            self._post(SlotLost(slot=spec.slot, reason=reason, host_lost=True))
            return
        self._engines[spec.slot] = engine
        engine.open(spec)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        if engine := self._engines.get(slot):
            engine.run(slot, request)

    def stop(self, slot: SlotId, attempt: str) -> None:
        if engine := self._engines.get(slot):
            engine.stop(slot, attempt)

    def close(self, slot: SlotId) -> None:
        if engine := self._engines.get(slot):
            engine.close(slot)

    def kill(self, slot: SlotId) -> None:
        if engine := self._engines.get(slot):
            engine.kill(slot)
