"""One slot's process on this machine, and the two ends of its channel."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchfleet.engines.base import SlotSpec
from benchfleet.engines.frames import Decoder
from benchfleet.engines.processes import end_tree

_LAUNCHER = str(Path(__file__).parents[1] / "slot" / "launch.py")


class Child:
    """A slot's supervisor as a child process, which ends as the slot ends.

    Making one starts it; raises OSError with nothing left behind where that cannot be.
    """

    def __init__(self, spec: SlotSpec) -> None:
        self.id = spec.slot
        self._log = Path(spec.log)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-E", _LAUNCHER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                bufsize=0,
            )
        self.reads = _pipe(self.process.stdout)
        self.writes = _pipe(self.process.stdin)
        self.pidfd = _pidfd(self.process.pid)
        self.decoder = Decoder()
        self.outgoing = bytearray()
        self.heard = time.monotonic()
        self.ending_since: float | None = None  # told to close, or killed
        self.doomed_since: float | None = None  # told to end with all that it started
        self.complaint = ""  # why the engine itself ended it

    @property
    def handles(self) -> tuple[int, ...]:
        """The file descriptors that this process has of it."""
        return (self.reads, self.writes, *(() if self.pidfd is None else (self.pidfd,)))

    def flush(self) -> None:
        """Write what the pipe takes now."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.writes, self.outgoing)]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.outgoing.clear()  # nobody is there to read it; its end is about to be seen

    def end(self) -> None:
        """Have its supervisor end the slot and all that it started."""
        self.doomed_since = self.doomed_since or time.monotonic()
        self.process.send_signal(signal.SIGTERM)

    def end_by_force(self) -> None:
        """Kill what is left of it, supervisor and all."""
        end_tree(self.process.pid if self.process.poll() is None else None, self.id)

    def note(self, text: str) -> None:
        """Add to the slot's log, where that can be written."""
        with contextlib.suppress(OSError), open(self._log, "a", encoding="utf-8") as log:
            log.write(text)

    def bury(self) -> int:
        """Wait for it, let go of the channel and of an empty log; its exit code."""
        self.end_by_force()
        code = self.process.wait()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self.ending_since is not None and not self.complaint:
            with contextlib.suppress(OSError):
                if self._log.stat().st_size == 0:
                    self._log.unlink()
        return code


def _pipe(stream: object) -> int:
    handle: int = stream.fileno()  # type: ignore[attr-defined]
    os.set_blocking(handle, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, 2**20)
    return handle


def _pidfd(pid: int) -> int | None:
    """A handle that tells the process's end; None where the system has none to give."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None
