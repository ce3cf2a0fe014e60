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
_SHELL_SIGNAL_OFFSET = 128  # a shell adds the number of the signal to this
_SEARCHED_LINES = 20  # at the end of the log
_MAX_LINE_CHARS = 300  # characters of a line that is shown


@dataclass(frozen=True, kw_only=True)
class ExitCause:
    """What the end of a slot was."""

    kind: Kind
    message: str
    trace: str = ""  # the last Python stack of a crashed slot


def find_exit_cause(lost: SlotLost, log: str) -> ExitCause:
    """Why a slot ended, by the most trusted source: its supervisor, a lost host, the first sign in
    the end of its log, its signal. A full disk in the log does not explain a crash."""
    why = f"its slot ended: {lost.reason}"
    if lost.host_lost:
        return ExitCause(kind="host_lost", message=why)
    if lost.kind is not None:
        return ExitCause(kind=lost.kind, message=why)
    number = _signal(lost.exit_code)
    tail, stack = _split_stack(log)
    if number == signal.SIGKILL:
        return _killed(why, tail)
    sign = find_error_signature(tail) if number != signal.SIGTERM else None
    if sign and not (sign.kind == "disk_full" and number in _CRASHES):
        return ExitCause(kind=sign.kind, message=f"{why}; its log: {sign.line[:_MAX_LINE_CHARS]}")
    if number in _CRASHES:
        top = next((line.strip() for line in stack.splitlines() if "File" in line), "")
        message = f"{why}; {_CRASHES[number]}{f'; in {top}' if top else ''}"
        return ExitCause(kind="crash", message=message, trace=stack)
    return ExitCause(kind="slot_lost", message=why)


def _killed(why: str, tail: str) -> ExitCause:
    """Nobody here killed it: the system's own words are all that can say why."""
    for line in tail.splitlines():
        if any(words in line.lower() for words in ("oom-kill", "oom_kill", "killed process")):
            return ExitCause(
                kind="oom", message=f"{why}; its log: {line.strip()[:_MAX_LINE_CHARS]}"
            )
    return ExitCause(kind="slot_lost", message=why)


def _signal(code: int | None) -> int:
    """The signal that it died of, itself or as a shell tells it; 0 where it was none."""
    if code is None:
        return 0
    if code < 0:
        return -code
    number = code - _SHELL_SIGNAL_OFFSET
    return number if number in _CRASHES or number in _KILLS else 0


def _split_stack(log: str) -> tuple[str, str]:
    """The last lines of a log, and the Python stack that `faulthandler` appended to them."""
    before, marker, rest = log.rpartition("Fatal Python error: ")
    lines = (before if marker else rest).splitlines()[-_SEARCHED_LINES:]
    stack = rest.partition("\n\nExtension modules:")[0] if marker else ""
    return "\n".join(lines), (marker + stack).strip()
