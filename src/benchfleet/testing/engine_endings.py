"""How the slots of an engine end, and that nothing of them is left: part of `EngineContract`."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from benchfleet.engines.base import Recorded, SlotLost
from benchfleet.testing.engine_fixture import EVENT_TIMEOUT_S, Bench, slot_id


class SlotEndings:
    """Slots that die, fall silent, are killed and closed."""

    @pytest.mark.parametrize(("act", "code"), [("kill", -9), ("exit", 7)])
    def test_a_slot_that_dies_is_lost_with_the_way_it_died(
        self, bench: Bench, act: str, code: int
    ) -> None:
        bench.open()
        bench.run(act=act)
        seen = bench.until(SlotLost)
        lost = seen[-1]
        assert isinstance(lost, SlotLost)
        assert lost.exit_code == code
        assert not lost.expected
        assert sum(isinstance(event, Recorded) for event in seen) == 1
        assert list(bench.engine.slots()) == []

    def test_a_slot_that_falls_silent_is_lost_and_its_processes_are_ended(
        self, bench: Bench
    ) -> None:
        pid = bench.open().hello["pid"]
        bench.run(act="stop")
        seen = bench.until(SlotLost)
        lost = seen[-1]
        assert isinstance(lost, SlotLost)
        assert (lost.expected, lost.kind) == (False, "stuck"), lost
        assert sum(isinstance(event, Recorded) for event in seen) == 1
        assert not psutil.pid_exists(pid)

    def test_a_slot_stopped_with_its_supervisor_is_lost_and_both_are_ended(
        self, bench: Bench
    ) -> None:
        slot = psutil.Process(bench.open().hello["pid"])
        supervisor = slot.parent()
        assert supervisor is not None
        supervisor.suspend()
        slot.suspend()
        lost = bench.until(SlotLost)[-1]
        assert isinstance(lost, SlotLost)
        assert (lost.expected, lost.kind) == (False, "stuck"), lost
        assert psutil.wait_procs([slot, supervisor], timeout=EVENT_TIMEOUT_S)[1] == []

    def test_nothing_a_slot_started_outlives_it(self, bench: Bench, tmp_path: Path) -> None:
        bench.open()
        marker = tmp_path / "child"
        bench.run(act="child", once=str(marker))
        bench.until(SlotLost)
        child = int(marker.read_text())
        if psutil.pid_exists(child):
            psutil.wait_procs([psutil.Process(child)], timeout=EVENT_TIMEOUT_S)
        assert not psutil.pid_exists(child)

    def test_a_killed_slot_is_lost_as_expected(self, bench: Bench) -> None:
        pid = bench.open().hello["pid"]
        bench.run(act="hang")
        bench.until(Recorded)
        bench.engine.kill(slot_id())
        lost = bench.until(SlotLost)[-1]
        assert isinstance(lost, SlotLost)
        assert lost.expected
        assert not psutil.pid_exists(pid)

    def test_a_closed_slot_ends_well(self, bench: Bench) -> None:
        bench.open()
        bench.engine.close(slot_id())
        lost = bench.until(SlotLost)[-1]
        assert isinstance(lost, SlotLost)
        assert (lost.expected, lost.exit_code) == (True, 0)

    def test_shutdown_leaves_no_process(self, bench: Bench) -> None:
        pids = [bench.open(number).hello["pid"] for number in (1, 2)]
        bench.run(act="hang", at=0)
        bench.engine.kill(slot_id())
        bench.engine.shutdown()
        assert not [pid for pid in pids if psutil.pid_exists(pid) and pid != os.getpid()]
