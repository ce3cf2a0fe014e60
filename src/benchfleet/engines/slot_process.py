"""The process behind a slot's channel: a child process here, or what stands for one elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Protocol

from benchfleet.engines.base import SlotId
from benchfleet.engines.processes import end_tree
from benchfleet.environment import child_environment


class SlotProcess(Protocol):
    """A running process with the descriptors of its streams, which do not block."""

    stdin: int
    stdout: int
    stderr: int
    exited: int | None  # readable once it has exited; None: only `poll` tells

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait for its exit, at most so long."""
        ...

    def terminate(self) -> None:
        """Have its supervisor end the slot and all that it started."""
        ...

    def kill(self) -> None:
        """Kill all that is left of it and can be reached."""
        ...

    def release(self) -> int | None:
        """Close its streams; its exit code, or None if nobody knows."""
        ...


class ChildProcess:
    """A child process of this one. The constructor starts it, or raises OSError and leaves nothing
    behind."""

    def __init__(self, slot: SlotId, command: Sequence[str]) -> None:
        self.slot = slot
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            env=child_environment(),
        )
        self.pid = self.popen.pid
        self.stdin = _descriptor(self.popen.stdin)
        self.stdout = _descriptor(self.popen.stdout)
        self.stderr = _descriptor(self.popen.stderr)
        self.exited = _pidfd(self.pid)

    def poll(self) -> int | None:
        return self.popen.poll()

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)

    def release(self) -> int:
        code = self.popen.wait()
        if self.exited is not None:
            os.close(self.exited)
            self.exited = None
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()
        return code


class LocalProcess(ChildProcess):
    """The supervisor of a slot on this machine."""

    def terminate(self) -> None:
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        end_tree(self.pid if self.poll() is None else None, self.slot)


class SshProcess(ChildProcess):
    """The ssh client whose other end is a slot's supervisor."""

    def terminate(self) -> None:
        if self.popen.stdin is not None:
            self.popen.stdin.close()  # the supervisor notices, wherever it is

    def kill(self) -> None:
        if self.poll() is None:
            self.popen.kill()


def _descriptor(stream: object) -> int:
    handle: int = stream.fileno()  # type: ignore[attr-defined]
    os.set_blocking(handle, False)
    return handle


def _pidfd(pid: int) -> int | None:
    """A descriptor that tells when the process exits; None where the system has none."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None
