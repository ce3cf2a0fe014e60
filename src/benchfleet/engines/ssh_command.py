"""One command on a host over SSH, run to its end."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from benchfleet.domain.host import Host
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.environment import child_environment
from benchfleet.errors import BenchfleetError

ANSWER_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a command on a host ended."""

    code: int  # its exit code; LOST where ssh had no connection
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of its errors, or else of its output."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else ""


def ask(
    ssh: OpenSsh,
    host: Host,
    words: Sequence[str],
    *,
    sent: bytes | Path = b"",
    timeout: float = ANSWER_LIMIT_S,
    alone: bool = False,
    started: Callable[[subprocess.Popen[bytes]], object] | None = None,
) -> Answer:
    """Run `words` on the host with `sent` (or that file) as their input.

    One that takes longer than `timeout` seconds counts as LOST, though it may continue there.
    `alone` takes a connection of its own: ssh hides what a jump host says behind a shared one.
    `started` is given the process, and may kill it; Ctrl-C does not reach it then.
    Raises BenchfleetError where this machine cannot start ssh.
    """
    argv = ssh.argv(host, words)
    if alone:
        argv[1:1] = ["-o", "ControlPath=none", "-o", "ControlPersist=no"]  # the first one holds
    # stderr goes to a file: the shared connection, which the first command leaves behind, may hold
    # on to it, and nobody should wait for that.
    with contextlib.ExitStack() as files:
        stderr = files.enter_context(tempfile.TemporaryFile())
        source: BinaryIO
        if isinstance(sent, bytes):
            source = files.enter_context(tempfile.TemporaryFile())
            source.write(sent)
            source.seek(0)
        else:
            source = files.enter_context(open(sent, "rb"))
        try:
            process = subprocess.Popen(
                argv,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=started is not None,
                env=child_environment(),
            )
        except FileNotFoundError:
            message = "ssh not found on this machine; install the OpenSSH client"
            raise BenchfleetError(message) from None
        except OSError as error:
            raise BenchfleetError(f"ssh cannot be started here: {error}") from error
        if started is not None:
            started(process)
        code, out = _finish(process, timeout)
        if code is None:
            stderr.write(f"\nno answer within {timeout:g} s\n".encode())
        stderr.seek(0)
        err = stderr.read()
    return Answer(
        code=LOST if code is None else code,
        out=out.decode("utf-8", "replace"),
        err=err.decode("utf-8", "replace"),
    )


def _finish(process: subprocess.Popen[bytes], limit: float) -> tuple[int | None, bytes]:
    """Its exit code, None where it had to be killed, and its output."""
    with process:
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0]
        except BaseException:
            process.kill()
            raise
        return process.returncode, out
