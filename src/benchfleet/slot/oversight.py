"""What a slot may not do: hold more RAM than it may, or stand still. Its supervisor looks.

Only the standard library and what lies beside it, so that a bare interpreter can run it by path.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

if __package__:
    from benchfleet.slot import kin
else:
    import kin  # type: ignore[import-not-found, no-redef]

_EVERY = 1.0  # seconds between looks
_LOOKS = 3  # at a machine short of RAM, one after the other, before it is acted upon


class Oversight:
    """Looks at a slot and all that it started, and says why it is to be ended. One that was stopped
    is ended within two heartbeats.

    The slot says over `hears` how much RAM it may hold, as lines ``ram <bytes>``; 0 is no limit.
    """

    def __init__(
        self, pid: int, slot: str, hears: int, *, heartbeat: float, proc: str = "/proc"
    ) -> None:
        self.every = min(_EVERY, heartbeat / 2)
        self._pid, self._slot, self._hears, self._proc = pid, slot, hears, proc
        os.set_blocking(hears, False)
        self._heartbeat = heartbeat
        self._patience = 2 * heartbeat - 2 * self.every  # it is seen one look late, and ended so
        self._ram = 0  # bytes; 0: as much as there is
        self._heard = b""
        self._cause: tuple[str, ...] = ()
        self._stopped_since: float | None = None
        self._last_look = time.monotonic()
        self._short = 0  # looks in a row at which the machine was short of RAM
        self._kernel_kills = kin.kernel_kills(proc)
        self._computed, self._next_word = 0, 0.0

    def word(self) -> str:
        """What is to be said of the slot now, twice in a heartbeat: that it ``computes``, or
        ``waits``; ``""`` in between."""
        now = time.monotonic()
        if now < self._next_word:
            return ""
        self._next_word = now + self._heartbeat / 2
        before = self._computed
        self._computed, runs = kin.computed(self._pid, self._proc)
        return "computes" if runs or self._computed != before else "waits"

    def look(self) -> bool:
        """Whether the slot is to be ended now."""
        now = time.monotonic()
        if now - self._last_look < self.every / 2:
            return False
        suspended = now - self._last_look > self._patience + self.every
        self._last_look = now
        self._hear()
        self._cause = self._stands_still(now, suspended) or self._takes_too_much()
        if not self._cause:
            self._kernel_kills = kin.kernel_kills(self._proc)
        return bool(self._cause)

    def cause_of(self, status: int) -> tuple[str, ...]:
        """Kind and message of why the slot ended, where that was seen from here."""
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not self._cause and killed and kin.kernel_kills(self._proc) > self._kernel_kills:
            return "oom", "the kernel ended it, since memory ran out; run fewer at once"
        return self._cause

    def _stands_still(self, now: float, suspended: bool) -> tuple[str, ...]:
        """A slot that was stopped; not while this process itself was, too."""
        if not kin.stands_still(self._pid, self._proc):
            self._stopped_since = None
        elif self._stopped_since is None or suspended:
            self._stopped_since = now
        elif now - self._stopped_since > self._patience:
            seconds = now - self._stopped_since
            return "stuck", f"stopped by a signal (SIGSTOP) for {seconds:.0f} s, so it was ended"
        return ()

    def _takes_too_much(self) -> tuple[str, ...]:
        # Whatever lost its parent became a child of this process.
        tree = kin.family(os.getpid(), self._proc) if self._ram else []
        if self._ram and (why := kin.over(self._ram, tree, self._proc)):
            return "oom", why
        self._short = self._short + 1 if kin.is_short(self._proc) else 0
        if self._short >= _LOOKS:
            self._short = 0
            if why := kin.is_the_one_to_go(self._slot, self._proc):
                return "oom", why
        return ()

    def _hear(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nothing was said, or nothing that we know
            while said := os.read(self._hears, 4096):
                *lines, self._heard = (self._heard + said).split(b"\n")
                for word, _, value in (line.partition(b" ") for line in lines):
                    if word == b"ram":
                        self._ram = int(value)
