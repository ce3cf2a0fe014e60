"""Why a slot is to be ended: it holds more RAM than it may, or was stopped. Its supervisor checks.

Only the standard library and what lies beside it, so that a bare interpreter can run it by path.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

if __package__:
    from benchfleet.slot import procfs
else:
    import procfs  # type: ignore[import-not-found, no-redef]

CHECK_S = 1.0  # between checks
SHORT_CHECKS = 3  # in a row at which the machine is short of RAM, before a slot is ended


class Watchdog:
    """Checks a slot and all that it started. A slot that was stopped is ended within two
    heartbeats.

    The slot writes to the pipe `limits` how much RAM it may hold, as lines ``ram <bytes>``; 0 is no
    limit.
    """

    def __init__(
        self, pid: int, slot: str, limits: int, *, heartbeat: float, proc: str = "/proc"
    ) -> None:
        self.every = min(CHECK_S, heartbeat / 2)
        self._pid, self._slot, self._limits, self._proc = pid, slot, limits, proc
        os.set_blocking(limits, False)
        self._heartbeat = heartbeat
        # It is noticed one check late, and ended so.
        self._stopped_limit = 2 * heartbeat - 2 * self.every
        self._ram_limit = 0  # bytes; 0: as much as there is
        self._unread = b""
        self._cause: tuple[str, ...] = ()
        self._stopped_since: float | None = None
        self._checked = time.monotonic()
        self._short = 0  # checks in a row at which the machine was short of RAM
        self._oom_kills = procfs.oom_kills(proc)
        self._ticks, self._next_heartbeat = 0, 0.0

    def heartbeat(self) -> str:
        """What to report of the slot, twice in a heartbeat: ``computes`` or ``waits``; ``""`` in
        between."""
        now = time.monotonic()
        if now < self._next_heartbeat:
            return ""
        self._next_heartbeat = now + self._heartbeat / 2
        before = self._ticks
        self._ticks, running = procfs.cpu_ticks(self._pid, self._proc)
        return "computes" if running or self._ticks != before else "waits"

    def check(self) -> bool:
        """Whether the slot is to be ended now."""
        now = time.monotonic()
        if now - self._checked < self.every / 2:
            return False
        suspended = now - self._checked > self._stopped_limit + self.every
        self._checked = now
        self._read_limits()
        self._cause = self._check_stopped(now, suspended) or self._check_memory()
        if not self._cause:
            self._oom_kills = procfs.oom_kills(self._proc)
        return bool(self._cause)

    def exit_cause(self, status: int) -> tuple[str, ...]:
        """Kind and message of why the slot ended; empty where the watchdog saw nothing of it."""
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not self._cause and killed and procfs.oom_kills(self._proc) > self._oom_kills:
            return "oom", "the kernel ended it, since memory ran out; run fewer at once"
        return self._cause

    def _check_stopped(self, now: float, suspended: bool) -> tuple[str, ...]:
        """Not while this process itself was `suspended`, too."""
        if not procfs.is_stopped(self._pid, self._proc):
            self._stopped_since = None
        elif self._stopped_since is None or suspended:
            self._stopped_since = now
        elif now - self._stopped_since > self._stopped_limit:
            seconds = now - self._stopped_since
            return "stuck", f"stopped by a signal (SIGSTOP) for {seconds:.0f} s, so it was ended"
        return ()

    def _check_memory(self) -> tuple[str, ...]:
        # Whatever lost its parent became a child of this process.
        tree = procfs.descendants(os.getpid(), self._proc) if self._ram_limit else []
        if self._ram_limit and (why := procfs.over_limit(self._ram_limit, tree, self._proc)):
            return "oom", why
        self._short = self._short + 1 if procfs.is_short_of_ram(self._proc) else 0
        if self._short >= SHORT_CHECKS:
            self._short = 0
            if why := procfs.oom_victim(self._slot, self._proc):
                return "oom", why
        return ()

    def _read_limits(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nothing new, or nothing that we know
            while data := os.read(self._limits, 4096):
                *lines, self._unread = (self._unread + data).split(b"\n")
                for word, _, value in (line.partition(b" ") for line in lines):
                    if word == b"ram":
                        self._ram_limit = int(value)
