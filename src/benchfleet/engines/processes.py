"""Ending a slot's whole process tree, also what left its session or lost its parent."""

from __future__ import annotations

import contextlib
import os
import signal


def end_tree(pid: int | None, slot: str) -> None:
    """Kill the process (None: waited for already), its descendants, and all with that marker.

    A child that called ``setsid`` and whose parent died is no descendant any more; it still
    bears ``BENCHFLEET_SLOT`` in its environment (seen on Linux).
    """
    import psutil

    doomed: set[int] = set()
    if pid is not None:
        doomed.add(pid)
        with contextlib.suppress(psutil.Error):
            doomed |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    for each in doomed | marked(slot):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def marked(slot: str) -> set[int]:
    """The processes of this user that inherited the slot's marker; empty without ``/proc``."""
    wanted = f"BENCHFLEET_SLOT={slot}".encode()
    found: set[int] = set()
    try:
        entries = os.listdir("/proc")
    except OSError:
        return found
    for entry in entries:
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.add(int(entry))
    return found
