"""Servers that tests start end with them, however those end."""

from __future__ import annotations

import socket
import subprocess


def ends_with_us(act: str) -> subprocess.Popen[bytes]:
    """A shell that runs this once its input is closed, at the latest when the test process ends."""
    return subprocess.Popen(
        ["sh", "-c", f"cat; {act}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
