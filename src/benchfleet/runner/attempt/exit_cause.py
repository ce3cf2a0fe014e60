"""Why a slot was lost in the middle of a cell, from all that is left of it: a pure function."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from benchfleet.domain.error_signatures import find_error_signature
from benchfleet.domain.failure import Kind
from benchfleet.engines.base import SlotLost

_CRASHES: Mapping[int, str] = {
    signal.SIGSEGV: "it touched memory that is not its own",
    signal.SIGBUS: "it touched memory that cannot be had: a file that was cut off, or a full disk "
    "or /dev/shm",
    signal.SIGABRT: "a library gave up",
    signal.SIGILL: "it was built for another processor",
    signal.SIGFPE: "it divided by zero",
}
_KILLS = {signal.SIGKILL, signal.SIGTERM}  # from outside: its log says nothing of why
_SHELLS_OWN = 128  # a shell adds the number of the signal to this
_LONGEST = 300  # characters of a line that is shown


@dataclass(frozen=True, kw_only=True)
class ExitCause:
    """What the end of a slot was."""

    kind: Kind
    message: str


def find_exit_cause(lost: SlotLost, tail: str) -> ExitCause:
    """What the end of a slot was, by its order of trust: what its supervisor saw, a host that is
    gone, the first sign in the last lines of its log, the signal that it died of. That a disk
    is full is no reason for a crash, and may have been said of something else."""
    why = f"its slot ended: {lost.reason}"
    if lost.host_lost:
        return ExitCause(kind="host_lost", message=why)
    if lost.kind is not None:
        return ExitCause(kind=lost.kind, message=why)
    number = _signal(lost.exit_code)
    if number == signal.SIGKILL:
        return _killed(why, tail)
    found = find_error_signature(tail) if number != signal.SIGTERM else None
    if found and not (found.kind == "disk_full" and number in _CRASHES):
        return ExitCause(kind=found.kind, message=f"{why}; its log: {found.line[:_LONGEST]}")
    if number in _CRASHES:
        return ExitCause(kind="crash", message=f"{why}; {_CRASHES[number]}")
    return ExitCause(kind="slot_lost", message=why)


def _killed(why: str, tail: str) -> ExitCause:
    """Nobody here killed it: the system's own words are all that can say why."""
    for line in tail.splitlines():
        if any(words in line.lower() for words in ("oom-kill", "oom_kill", "killed process")):
            return ExitCause(kind="oom", message=f"{why}; its log: {line.strip()[:_LONGEST]}")
    return ExitCause(kind="slot_lost", message=why)


def _signal(code: int | None) -> int:
    """The signal that it died of, itself or as a shell tells it; 0 where it was none."""
    if code is None:
        return 0
    if code < 0:
        return -code
    number = code - _SHELLS_OWN
    return number if number in _CRASHES or number in _KILLS else 0
