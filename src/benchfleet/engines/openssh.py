"""Command lines of the OpenSSH client: the user's own configuration, agent and jump hosts apply.

All slots of a host share one connection (ControlMaster), which closes by itself when unused for a
while. A host's key is accepted at the first connection and stored in a file of the campaign; a
different key later is refused. Nothing asks for a password and nothing is forwarded. Of the
environment only what the user's configuration sends (most often LANG) reaches the host.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.host import Host
from benchfleet.environment import child_environment

CONNECT_TIMEOUT_S = 10
ALIVE_INTERVAL_S = 5  # between questions on an idle connection
ALIVE_COUNT = 3  # questions without an answer until it is given up
LINGER_S = 20  # for which an unused connection is kept
ALONE = "import sys; sys.path[:] = filter(None, sys.path); "  # no module of the home folder's
LOST = 255  # ssh's own exit code: no connection, or it broke
MAX_SOCKET_FOLDER_BYTES = 40  # a socket's path takes about 100 in all


@dataclass(frozen=True, kw_only=True)
class OpenSsh:
    """How the hosts of a run are reached."""

    known_hosts: Path  # takes the keys of hosts met for the first time; need not exist yet
    sockets: Path  # a private folder with a short path, for the shared connections

    def argv(self, host: Host, words: Sequence[str]) -> list[str]:
        """The command that runs `words` on the host, in the user's home folder there."""
        return ["ssh", *self.options(host), "--", destination(host), quoted(words)]

    def options(self, host: Host) -> list[str]:
        """The options alone, as rsync's ``-e`` needs them."""
        shared = {
            "ControlMaster": "auto",
            "ControlPath": f'"{literal(self.sockets)}/%C"',
            "ControlPersist": LINGER_S,
            "ClearAllForwardings": "yes",
        }
        options = ["-T", *_settings(self._always()), *_settings(shared)]
        if host.jump:
            options += ["-o", f"ProxyCommand={self._through(host.jump.split(','))}"]
        if host.port is not None:
            options += ["-p", str(host.port)]
        if host.user:
            options += ["-l", host.user]
        if host.identity:
            options += ["-i", host.identity]
        return options

    def _always(self) -> dict[str, object]:
        known_hosts_files = f'"{literal(self.known_hosts)}" ~/.ssh/known_hosts ~/.ssh/known_hosts2'
        return {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": known_hosts_files,
            "ConnectTimeout": CONNECT_TIMEOUT_S,
            "ServerAliveInterval": ALIVE_INTERVAL_S,
            "ServerAliveCountMax": ALIVE_COUNT,
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "PermitLocalCommand": "no",
            "RemoteCommand": "none",
            "LogLevel": "ERROR",
        }

    def _through(self, jumps: Sequence[str]) -> str:
        """A ProxyCommand over the jump hosts: ssh's own -J would take none of these options."""
        *before, last = jumps
        words = ["ssh", *_settings(self._always())]
        if before:
            words += ["-o", f"ProxyCommand={self._through(before)}".replace("%", "%%")]
        return shlex.join([*words, "-W", "[%h]:%p", "--", f"ssh://{last.strip()}"])


@contextlib.contextmanager
def connections(known_hosts: Path) -> Iterator[OpenSsh]:
    """Shared connections for as long as the block runs; every one is ended with it.

    The folder of `known_hosts` is made where it is not there yet.
    """
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sockets = Path(tempfile.mkdtemp(prefix="bf-"))
    if len(bytes(sockets)) > MAX_SOCKET_FOLDER_BYTES:
        sockets.rmdir()
        sockets = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    try:
        yield OpenSsh(known_hosts=known_hosts, sockets=sockets)
    finally:
        for socket in sockets.iterdir():
            _end_connection(socket)
        shutil.rmtree(sockets, ignore_errors=True)


def _end_connection(socket: Path) -> None:
    """End the connection behind a socket, whatever host it leads to."""
    path = f'ControlPath="{literal(socket)}"'
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["ssh", "-F", "/dev/null", "-o", path, "-O", "exit", "any"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CONNECT_TIMEOUT_S,
            check=False,
            env=child_environment(),
        )


def literal(path: Path) -> str:
    """The path as ssh's options take it between quotes, which see tokens (``%h``) in it."""
    return str(path).replace("%", "%%")


def _settings(settings: Mapping[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def destination(host: Host) -> str:
    """The host argument of ssh."""
    return host.address or host.name


def quoted(words: Sequence[str]) -> str:
    """The words as one line for whatever shell the user has there; ``~/`` in front is its home."""
    return "exec " + " ".join(
        '"$HOME"/' + shlex.quote(word[2:]) if word.startswith("~/") else shlex.quote(word)
        for word in words
    )
