"""How slots end that the engine ends because their host was lost."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchfleet.engines.base import SlotId, SlotLost
from benchfleet.engines.remote_engine import RemoteEngine
from benchfleet.runner.attempt.exit_cause import find_exit_cause

KILLED = 9  # as `os.wait` says it


class Engine(RemoteEngine):
    """One slot, whose supervisor still reports its end, as on a node that leaves in order."""

    def __init__(self, *, ended_before: bool) -> None:
        self._lock = threading.RLock()
        self.child = SimpleNamespace(
            id=SlotId("s"), wait_status=KILLED if ended_before else None, kind=None, reason="",
            orphaned=False, closing_since=None, unfit=(), busy=False, host_lost=False,
            kill=self._end,
        )  # fmt: skip
        self._slots = {self.child.id: cast(Any, self.child)}
        self._host_of = {self.child.id: "node"}
        self.lost: SlotLost | None = None

    def _terminate(self, child: Any, reason: str = "") -> None:
        child.reason = child.reason or reason

    def _end(self) -> None:
        self.child.wait_status = KILLED
        self.lost = self._exit_event(cast(Any, self.child), None)
        self._host_of.clear()


@pytest.mark.parametrize(("ended_before", "kind"), [(False, "host_lost"), (True, "slot_lost")])
def test_a_slot_that_ends_with_its_host_costs_its_cell_no_try(
    ended_before: bool, kind: str
) -> None:
    """Also where its supervisor lives long enough to report how it ended."""
    engine = Engine(ended_before=ended_before)
    engine._lose_slots("node", "does not answer")
    assert engine.lost is not None
    assert find_exit_cause(engine.lost, "").kind == kind
    assert "its host was lost: does not answer" in engine.lost.reason
