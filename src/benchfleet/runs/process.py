"""Which process a record means, so that no other one is ever taken for it."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.engines.processes import owner, process_space


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process of this machine or another one, named for ever."""

    pid: int
    name: str  # its number and its start; a recycled number has another
    space: str  # the boot and the space of process numbers in which that holds
    host: str

    @classmethod
    def own(cls) -> Process:
        """The process that asks."""
        pid = os.getpid()
        return cls(pid=pid, name=_name(pid), space=_space(), host=platform.node())

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Process:
        """The process that was written down. Raises LookupError, TypeError or ValueError."""
        texts = {key: str(fields[key]) for key in ("name", "space", "host")}
        return cls(pid=int(fields["pid"]), **texts)

    def lives(self) -> bool | None:
        """Whether it is still there; None where that cannot be seen from here."""
        space = _space()
        if self.space == space:
            return bool(self.name) and _name(self.pid) == self.name
        booted_since = self.space.partition(" ")[0] != space.partition(" ")[0]
        return False if self.host == platform.node() and booted_since else None

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal; whether it was still there. It is never sent to another process:
        where the system has a handle for processes, it is looked at once that is held."""
        try:
            if not hasattr(os, "pidfd_open"):
                if alive := bool(self.lives()):
                    os.kill(self.pid, number)
                return alive
            handle = os.pidfd_open(self.pid)
            try:
                if alive := bool(self.lives()):
                    signal.pidfd_send_signal(handle, number)
                return alive
            finally:
                os.close(handle)
        except ProcessLookupError:
            return False


def has_died(fields: Mapping[str, Any]) -> bool | None:
    """Whether the process that was written down died; None if this machine cannot tell."""
    try:
        lives = Process.read(fields).lives()
    except (LookupError, TypeError, ValueError):
        return None
    return None if lives is None else not lives


def is_suspended(pid: int) -> bool:
    """Whether a process was stopped, by Ctrl-Z or SIGSTOP."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def _name(pid: int) -> str:
    """``""`` where it is not there, or dead and not yet buried."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return owner(pid) or f"{pid}@{process.create_time()}"
    except psutil.Error:
        return ""


def _space() -> str:
    return process_space() or platform.node()
