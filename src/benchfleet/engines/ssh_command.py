"""One command on a host over SSH, run to its end."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.host import Host
from benchfleet.engines.openssh import LOST, OpenSsh
from benchfleet.errors import BenchfleetError

_PATIENCE = 120.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a command on a host ended."""

    code: int  # its exit code; LOST where ssh had no connection
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last thing that it complained of, or else said."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else ""


def ask(
    ssh: OpenSsh,
    host: Host,
    words: Sequence[str],
    *,
    sent: bytes | Path = b"",
    patience: float = _PATIENCE,
    alone: bool = False,
) -> Answer:
    """Run `words` on the host with `sent` (or that file) as their input.

    One that takes longer than `patience` seconds is given up as LOST, though it may go on there.
    `alone` takes a connection of its own: ssh hides what a jump host says behind a shared one.
    Raises BenchfleetError where this machine has no ssh.
    """
    argv = ssh.argv(host, words)
    if alone:
        argv[1:1] = ["-o", "ControlPath=none", "-o", "ControlPersist=no"]  # the first one holds
    # stderr goes to a file: the shared connection, which the first command leaves behind, may hold
    # on to it, and nobody should wait for that.
    with tempfile.TemporaryFile() as heard, tempfile.TemporaryFile() as typed:
        if isinstance(sent, bytes):
            typed.write(sent)
            typed.seek(0)
        source = typed if isinstance(sent, bytes) else open(sent, "rb")  # noqa: SIM115
        try:
            done = subprocess.run(
                argv,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=heard,
                timeout=patience,
                check=False,
            )
            code, out = done.returncode, done.stdout
        except subprocess.TimeoutExpired as expired:
            code, out = LOST, expired.stdout or b""
            heard.write(f"\nno answer within {patience:g} s\n".encode())
        except FileNotFoundError:
            message = "there is no ssh on this machine; install the OpenSSH client"
            raise BenchfleetError(message) from None
        finally:
            source.close()
        heard.seek(0)
        err = heard.read()
    return Answer(code=code, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace"))
