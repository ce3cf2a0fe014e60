"""What Linux shows of a slot's processes, on a made-up /proc and on the real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchfleet.slot import procfs
from benchfleet.slot.watchdog import Watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
GB_IN_KB = 1_000_000_000 // 1024 + 1


class Proc:
    """A made-up /proc of a machine with 100 GB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory(available=50)

    def memory(self, *, available: int, swap: int = 0, swap_free: int = 0) -> None:
        (self.folder / "meminfo").write_text(
            f"MemTotal: {100 * GB_IN_KB} kB\nMemAvailable: {available * GB_IN_KB} kB\n"
            f"SwapTotal: {swap * GB_IN_KB} kB\nSwapFree: {swap_free * GB_IN_KB} kB\n"
        )

    def kills(self, count: int) -> None:
        (self.folder / "vmstat").write_text(f"pgfault 7\noom_kill {count}\n")

    def process(
        self,
        pid: int,
        *,
        anonymous: int = 0,
        files: int = 0,
        apart: int | None = None,
        children: tuple[int, ...] = (),
        state: str = "S",
        slot: str = "",
    ) -> None:
        """One with so many GB of its own, and of files that can be read again."""
        place = self.folder / str(pid)
        (place / "task" / str(pid)).mkdir(parents=True)
        (place / "task" / str(pid) / "children").write_text(" ".join(map(str, children)))
        (place / "comm").write_text("python3\n")
        (place / "stat").write_text(f"{pid} (a ) b) {state} 1 1\n")
        (place / "environ").write_bytes(f"HOME=/x\0BENCHFLEET_SLOT={slot}\0".encode())
        (place / "status").write_text(
            f"RssAnon:\t{anonymous * GB_IN_KB} kB\nRssFile:\t{files * GB_IN_KB} kB\n"
            "RssShmem:\t0 kB\n"
        )
        if apart is not None:
            rollup = f"Pss: 1 kB\nPss_Anon: {apart * GB_IN_KB} kB\nPss_Shmem: 0 kB\n"
            (place / "smaps_rollup").write_text(rollup)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_family_is_all_descendants(proc: Proc) -> None:
    proc.process(1, children=(2, 3))
    proc.process(2, children=(4,))
    proc.process(3)
    proc.process(4)
    assert procfs.descendants(1, str(proc.folder)) == [2, 3, 4]


def test_a_tree_over_its_limit_is_reported_with_its_numbers(proc: Proc) -> None:
    proc.process(2, anonymous=3)
    proc.process(3, anonymous=14)
    assert procfs.over_limit(20 * 10**9, [2, 3], str(proc.folder)) == ""
    output = procfs.over_limit(16 * 10**9, [2, 3], str(proc.folder))
    assert "its 2 processes hold 17.0 GB of RAM, over its limit of 16.0 GB" in output
    assert "most of it python3 (3) with 14.0 GB" in output


def test_files_that_were_mapped_do_not_count(proc: Proc) -> None:
    proc.process(2, anonymous=1, files=60)
    assert procfs.over_limit(16 * 10**9, [2], str(proc.folder)) == ""


def test_what_processes_share_counts_once(proc: Proc) -> None:
    for pid in (2, 3, 4):
        proc.process(pid, anonymous=10, apart=4)
    assert procfs.over_limit(16 * 10**9, [2, 3, 4], str(proc.folder)) == ""
    assert "hold 12.0 GB" in procfs.over_limit(11 * 10**9, [2, 3, 4], str(proc.folder))


@pytest.mark.parametrize(
    ("available", "swap", "swap_free", "short"),
    [(50, 0, 0, False), (1, 0, 0, True), (1, 20, 15, False), (1, 20, 1, True), (0, 0, 0, False)],
)
def test_a_machine_is_short_of_ram_where_swap_is_used_up_too(
    proc: Proc, available: int, swap: int, swap_free: int, short: bool
) -> None:
    proc.memory(available=available, swap=swap, swap_free=swap_free)
    assert procfs.is_short_of_ram(str(proc.folder)) is short


def test_only_the_largest_slot_goes_and_only_where_that_helps(proc: Proc) -> None:
    proc.process(2, anonymous=20, slot="run-1")
    proc.process(3, anonymous=15, slot="run-1")
    proc.process(4, anonymous=30, slot="run-2")
    folder = str(proc.folder)
    assert "largest slot with 35.0 GB" in procfs.oom_victim("run-1", folder)
    assert procfs.oom_victim("run-2", folder) == ""


def test_small_slots_do_not_pay_for_what_others_took(proc: Proc) -> None:
    proc.process(2, anonymous=2, slot="run-1")
    assert procfs.oom_victim("run-1", str(proc.folder)) == ""


def watchdog(proc: Proc, hears: int) -> Watchdog:
    return Watchdog(2, "run-1", hears, heartbeat=1e-9, proc=str(proc.folder))


def test_the_guard_waits_for_a_shortage_that_lasts(proc: Proc) -> None:
    hears, tells = os.pipe()
    proc.process(2, anonymous=60, slot="run-1")
    watch = watchdog(proc, hears)
    proc.memory(available=1)
    assert not watch.check()
    proc.memory(available=50)
    assert not watch.check()
    proc.memory(available=1)
    assert [watch.check() for _ in range(3)] == [False, False, True]
    kind, message = watch.exit_cause(signal.SIGKILL)
    assert (kind, "machine ran out of RAM" in message) == ("oom", True)
    os.close(hears)
    os.close(tells)


@pytest.mark.parametrize(
    ("before", "after", "status", "kind"),
    [
        (3, 4, signal.SIGKILL, "oom"),
        (3, 3, signal.SIGKILL, ""),
        (3, 4, signal.SIGSEGV, ""),
        (3, 4, 0, ""),
    ],
)
def test_a_kill_by_the_kernel_for_memory_is_known_by_its_count(
    proc: Proc, before: int, after: int, status: int, kind: str
) -> None:
    hears, tells = os.pipe()
    proc.kills(before)
    proc.process(2)
    watch = watchdog(proc, hears)
    watch.check()
    proc.kills(after)
    assert "".join(watch.exit_cause(status)[:1]) == kind
    os.close(hears)
    os.close(tells)


def test_what_a_slot_says_in_pieces_or_in_riddles_harms_nothing(proc: Proc) -> None:
    hears, tells = os.pipe()
    proc.process(os.getpid(), children=(2,))
    proc.process(2, anonymous=9)
    watch = watchdog(proc, hears)
    os.write(tells, b"ram many\nwhat is this\nram 8")
    assert not watch.check()
    os.write(tells, b"000000000\n")
    assert watch.check()
    assert watch.exit_cause(0)[0] == "oom"
    os.close(hears)
    os.close(tells)


def test_real_processes_are_read_alike() -> None:
    program = "import time; held = bytearray(64 * 2**20); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in procfs.descendants(os.getpid())
        assert 64e6 < procfs.pss([child.pid])[child.pid] < 200e6
        assert 64e6 < procfs.rss([child.pid])[child.pid] < 200e6
        assert not procfs.is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
            continue
        assert procfs.is_stopped(child.pid)
        child.kill()
    assert procfs.oom_kills() >= 0
    assert procfs.rss([child.pid]) == {child.pid: 0}
