"""Ends a slot's whole process tree, including what left its session, its parent or its runner."""

from __future__ import annotations

import contextlib
import os
import signal


def end_tree(pid: int | None, slot: str) -> None:
    """Kill the process (None: waited for already), its descendants, and all with that marker.

    A child that called ``setsid`` and whose parent died is no descendant any more; it still
    bears ``BENCHFLEET_SLOT`` in its environment (seen on Linux). A supervisor that was stopped is
    to go on, so that it sees that its slot ended.
    """
    import psutil

    doomed: set[int] = set()
    if pid is not None:
        doomed.add(pid)
        with contextlib.suppress(psutil.Error):
            doomed |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    doomed |= marked(slot)
    supervisors: set[int] = set()
    for each in doomed:
        with contextlib.suppress(psutil.Error):
            supervisors.add(psutil.Process(each).ppid())
    for each in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)
    for each in supervisors - doomed - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def marked(slot: str) -> set[int]:
    """The processes of this user that inherited the slot's marker; empty without ``/proc``."""
    marker = f"BENCHFLEET_SLOT={slot}".encode()
    pids: set[int] = set()
    try:
        entries = os.listdir("/proc")
    except OSError:
        return pids
    for entry in entries:
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if marker in file.read().split(b"\0"):
                    pids.add(int(entry))
    return pids


def owner(pid: int) -> str:
    """What names a process for ever, its number and its start: ``<pid>@<clock ticks since the
    boot>``; ``""`` without ``/proc``, and where there is no such process, or a dead one that nobody
    waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else f"{pid}@{int(fields[19])}"


def process_space() -> str:
    """The boot and the PID namespace in which names by `owner` hold; ``""`` without ``/proc``."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def end_orphans() -> None:
    """Kill what slots here started and nobody is left to end, since supervisor and runner were
    killed both: it bears ``BENCHFLEET_OWNER``, the name of a runner that is there no more. What
    lives in another PID namespace has names that say nothing here, and is left alone."""
    try:
        entries = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return
    for pid in entries:
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
            marks = [w for w in file.read().split(b"\0") if w.startswith(b"BENCHFLEET_OWNER=")]
            name = marks[0].decode().partition("=")[2] if marks else ""
            if not name or owner(int(name.partition("@")[0])) == name:
                continue
            if os.readlink(f"/proc/{pid}/ns/pid") == space:
                os.kill(pid, signal.SIGKILL)
