"""The engine contract over every engine that runs here."""

from __future__ import annotations

from collections.abc import Callable

from benchfleet.engines.base import Engine, SlotEvent
from benchfleet.engines.local import LocalEngine
from benchfleet.testing.engine_contract import EngineContract


class TestLocalEngine(EngineContract):
    def make_engine(self, post: Callable[[SlotEvent], None]) -> Engine:
        return LocalEngine(post)
