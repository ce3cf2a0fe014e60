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

from benchfleet.errors import CellFailure

GRACE_S = 5.0  # seconds between being asked to end and being killed
_POLL_S = 0.1  # seconds between looks at the time and at what asks it to stop
_READ_BYTES = 2**16  # bytes read at once
_MAX_OUTPUT_BYTES = 2**20  # bytes of its output, the last ones


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
    own end, by `timeout` seconds, or by what `check_stop` raises, its whole process group ends
    with it. Raises CellFailure where it cannot start, takes too long or fails.
    """
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed("user_error", f"{argv[0]!r} cannot be started: {error.strerror}") from None
    ends = None if timeout is None else clock() + timeout
    with process:
        try:
            tail = _follow(process, check_stop, ends, clock)
        finally:
            _end_group(process, grace if process.poll() is None else 0.0)
    if tail is None:
        raise _failed("timeout", f"it ran longer than its timeout of {timeout:g} s", again=True)
    if process.returncode:
        raise _failed("error", f"{argv[0]} {_ended(process.returncode)}")
    return tail


def _follow(
    process: subprocess.Popen[bytes],
    check_stop: Callable[[], None],
    ends: float | None,
    clock: Callable[[], float],
) -> bytes | None:
    """Copy its output until it ends; None where its time ran out."""
    tail, output = bytearray(), process.stdout
    while ends is None or clock() < ends:
        check_stop()
        ended = process.poll() is not None
        if output is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
        elif select.select([output], [], [], 0 if ended else _POLL_S)[0]:
            if piece := os.read(output.fileno(), _READ_BYTES):
                _write(piece)
                tail += piece
                del tail[:-_MAX_OUTPUT_BYTES]
                continue
            output = None  # closed, mostly because it is about to end
        if ended:
            return bytes(tail)
    return None


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


def _write(piece: bytes) -> None:
    remaining = memoryview(piece)
    while remaining:
        remaining = remaining[os.write(1, remaining) :]


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}; the log has its last words"
    try:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was killed by signal {-code}"


def _failed(kind: str, message: str, *, again: bool = False) -> CellFailure:
    return CellFailure(stage="benchmark", kind=kind, message=message, retryable=again)
