"""One command run to its end: its output goes to the log as it comes, and nothing of it stays."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchfleet.domain.error_signatures import (
    RETRYABLE_KINDS,
    find_error_signature,
    is_connection_failure,
    kind_of_exit,
)
from benchfleet.domain.failure import Kind
from benchfleet.errors import CellFailure

GRACE_S = 5.0  # seconds between being asked to end and being killed
_POLL_S = 0.1  # seconds between looks at the time and at what asks it to stop
_READ_BYTES = 2**16  # bytes read at once
_MAX_LINE_CHARS = 300  # of stderr, in a message
MAX_STDOUT_BYTES = 64_000_000  # the last of what it prints, where a report may be
_MAX_STDERR_BYTES = 2**20  # the last ones, for a message
_MARK = "BENCHFLEET_SCRIPT"  # the variable by which all processes of one script are found
_SWEEPS, _SWEEP_PAUSE_S = 50, 0.02  # looks for such processes: the kernel may take its time


def run_process(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout: float | None,
    check_stop: Callable[[], None],
    clock: Callable[[], float] = time.monotonic,
    grace: float = GRACE_S,
) -> bytes:
    """Run the command and return the end of what it wrote to stdout.

    Both its outputs go to this process's own as they come. However this ends, by the command's
    own end, by `timeout` seconds, or by what `check_stop` raises, all processes that it started
    end with it: its group, and those with the mark that its environment gets. Raises CellFailure
    where it cannot start, takes too long or fails.
    """
    mark = os.urandom(16).hex()
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**environment, _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed("user_error", f"{argv[0]!r} cannot be started: {error.strerror}") from None
    ends = None if timeout is None else clock() + timeout
    oom_kills = _oom_kills()
    with process:
        try:
            tails = _follow(process, check_stop, ends, clock)
        finally:
            _end_group(process, grace if process.poll() is None else 0.0)
            _end_marked(f"{_MARK}={mark}".encode())
    if tails is None:
        raise _failed("timeout", f"it ran longer than its timeout of {timeout:g} s", again=True)
    if process.returncode:
        code, (_, errors) = process.returncode, tails
        kind = _exit_kind(code, errors, was_oom=_oom_kills() > oom_kills)
        message = f"{argv[0]} {_ended(code)}"
        if code > 0 and (own := _last_line(errors)):
            message = f"{own} ({argv[0]} ended with exit code {code})"
        raise _failed(kind, message, again=kind in RETRYABLE_KINDS)
    return tails[0]


def _follow(
    process: subprocess.Popen[bytes],
    check_stop: Callable[[], None],
    ends: float | None,
    clock: Callable[[], float],
) -> tuple[bytes, bytes] | None:
    """Copy its outputs until it ends and return the end of both; None where its time ran out."""
    tails = bytearray(), bytearray()
    outputs = {pipe.fileno(): n for n, pipe in enumerate((process.stdout, process.stderr)) if pipe}
    while ends is None or clock() < ends:
        check_stop()
        ended = process.poll() is not None
        if not outputs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
        ready = select.select(list(outputs), [], [], 0 if ended else _POLL_S)[0] if outputs else []
        for handle in ready:
            number = outputs[handle]
            if piece := os.read(handle, _READ_BYTES):
                _write(piece, number + 1)
                tails[number].extend(piece)
                del tails[number][: -(MAX_STDOUT_BYTES, _MAX_STDERR_BYTES)[number]]
            else:
                del outputs[handle]  # closed, mostly because it is about to end
        if ended and not ready:
            return bytes(tails[0]), bytes(tails[1])
    return None


def _exit_kind(code: int, errors: bytes, *, was_oom: bool) -> Kind:
    """The kind of failure, by exit code and the last line of stderr."""
    kind = kind_of_exit(code)
    if kind == "killed" and code in (-signal.SIGKILL, 128 + signal.SIGKILL) and was_oom:
        return "oom"
    if kind != "error":
        return kind
    last = _last_line(errors)
    if is_connection_failure(last):
        return "connection"
    sign = find_error_signature(last)
    return "disk_full" if sign and sign.kind == "disk_full" else "error"


def _last_line(errors: bytes) -> str:
    """The last line of stderr: the error itself in a traceback."""
    line = errors.decode("utf-8", "replace").rstrip().rpartition("\n")[2].strip()
    return line[:_MAX_LINE_CHARS]


def _oom_kills() -> int:
    """How many processes the kernel killed for want of memory since it booted."""
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def _end_group(process: subprocess.Popen[bytes], grace: float) -> None:
    """End whatever is left of its group: asked first, where there is some grace."""
    group = process.pid
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if grace:
            os.killpg(group, signal.SIGTERM)
            until = time.monotonic() + grace
            while time.monotonic() < until:
                process.poll()  # the leader, once ended, is of the group until it was waited for
                os.killpg(group, 0)
                time.sleep(_POLL_S / 5)
        os.killpg(group, signal.SIGKILL)


def _end_marked(mark: bytes) -> None:
    """Kill what left its group: all whose environment has the mark."""
    for _ in range(_SWEEPS):  # one that is being killed may have started another
        pids = map(int, filter(str.isdecimal, os.listdir("/proc")))
        marked = [pid for pid in pids if _has_mark(pid, mark)]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_SWEEP_PAUSE_S)


def _has_mark(pid: int, mark: bytes) -> bool:
    """Whether a process that still runs has it; one that was killed has no environment."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False


def _write(piece: bytes, handle: int) -> None:
    remaining = memoryview(piece)
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]


def _ended(code: int) -> str:
    if code == os.EX_TEMPFAIL:
        return f"asks to try again (exit code {code})"
    if code > 0:
        return f"ended with exit code {code}; the log has its last words"
    try:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed by signal {-code}"


def _failed(kind: Kind, message: str, *, again: bool = False) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message, retryable=again)
