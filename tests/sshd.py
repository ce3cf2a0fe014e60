"""A real sshd on this machine, with its own keys, port and configuration: a host for tests."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchfleet.domain.host import Host
from watchers import ends_with_us, free_port

_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/sshd.pid
SetEnv {marker} HOME={folder}/home{environment}
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxAuthTries 20
MaxStartups 100
MaxSessions {max_sessions}
LogLevel VERBOSE
"""
_BOUND = 20  # seconds for sshd to answer, and for what was killed to be gone


def need_sshd() -> str:
    """Where sshd is; skips the test where there is none, and fails it in CI."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    found = shutil.which("sshd", path=places)
    if found and shutil.which("ssh") and shutil.which("ssh-keygen"):
        return found
    reason = "no sshd here: it comes with the packages openssh-server and openssh-client"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Sshd:
    """An sshd that knows one client key. Its creator calls `kill` in the end.

    Its sessions are of the user who runs the tests and see that user's files, but have a home of
    their own: what a shell of that user begins with may take long, or be left half done when a
    test ends it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_sessions: int = 100,
        path: str = "",
        environment: Mapping[str, str] = {},
    ) -> None:
        self._sshd = need_sshd()
        self._marker = f"BENCHFLEET_TESTED_ON={uuid.uuid4().hex}"
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._seen: set[psutil.Process] = set()
        self.folder = folder
        (folder / "home").mkdir(exist_ok=True)
        self.port = free_port()
        self.identity = self.new_key("client_key")
        self.new_key("host_key")
        self.authorize(self.identity)
        variables = {**environment, **({"PATH": path} if path else {})}
        config = _CONFIG.format(
            port=self.port,
            folder=folder,
            marker=self._marker,
            max_sessions=max_sessions,
            environment="".join(f" {name}={value}" for name, value in variables.items()),
        )
        (folder / "sshd_config").write_text(config)

    def host(self, name: str = "lab1", **changes: Any) -> Host:
        """This machine as a host behind it, which runs commands with our own Python."""
        reached = {
            "name": name,
            "address": "127.0.0.1",
            "port": self.port,
            "user": getpass.getuser(),
            "identity": str(self.identity),
            "python": sys.executable,
            "folder": str(self.folder / name),
        }
        return Host(**{**reached, **changes})

    def new_key(self, name: str) -> Path:
        """Make a key pair of that name in the folder, over an older one. ``host_key`` is the
        server's own: a new one is shown from the next `start` on."""
        key = self.folder / name
        key.unlink(missing_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True
        )
        return key

    def authorize(self, *identities: Path) -> None:
        """Let in those who hold one of these keys, and nobody else, from now on."""
        keys = [Path(f"{identity}.pub").read_text() for identity in identities]
        (self.folder / "authorized_keys").write_text("".join(keys))

    def start(self) -> None:
        """Start it, again on the same port, and wait until it answers."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(parents=True, exist_ok=True)
        config = str(self.folder / "sshd_config")
        with open(self.folder / "sshd.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._sshd, "-D", "-e", "-f", config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._watcher = ends_with_us(f"kill {self._process.pid}")
        deadline = time.monotonic() + _BOUND
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"sshd does not answer: {self.log()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Take no connection any more; those that are there live on."""
        self._connections()
        self._end_listener()

    def freeze(self) -> None:
        """Go silent, as a host does whose network is gone; the sessions run on."""
        for process in self._server():
            with suppress(psutil.Error):
                process.suspend()

    def thaw(self) -> None:
        """Go on after `freeze`."""
        for process in self._server():
            with suppress(psutil.Error):
                process.resume()

    def kill(self) -> None:
        """End it as a power cut does: server, connections, and all that runs in the sessions."""
        doomed: set[psutil.Process] = set()
        deadline = time.monotonic() + _BOUND
        while found := {p for p in self._server() | self.sessions() if _lives(p)}:
            assert time.monotonic() < deadline, f"cannot be killed: {found}"
            # The server goes first, or it would still say how a session ended.
            for process in sorted(found - doomed, key=lambda process: process not in self._seen):
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            doomed |= found
            if self._process is not None:
                self._process.poll()
            time.sleep(0.01)
        self._end_listener()

    def sessions(self) -> set[psutil.Process]:
        """Everything that was started in its sessions and lives, orphans too."""
        found = set()
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if self._marker.encode() in Path(f"/proc/{process.pid}/environ").read_bytes():
                    found.add(process)
        return found

    def log(self) -> str:
        """What it wrote so far."""
        return (self.folder / "sshd.log").read_text(errors="replace")

    def _end_listener(self) -> None:
        if self._process is not None and self._watcher is not None:
            self._watcher.communicate(timeout=_BOUND)
            self._process.wait(_BOUND)
        self._process = self._watcher = None

    def _server(self) -> set[psutil.Process]:
        """The process that listens, and one or two for each connection."""
        server = set(self._connections())
        if self._process is not None:
            with suppress(psutil.Error):
                server.add(psutil.Process(self._process.pid))
        return server

    def _connections(self) -> set[psutil.Process]:
        if self._process is not None:
            with suppress(psutil.Error):
                below = psutil.Process(self._process.pid).children(recursive=True)
                self._seen |= set(below) - self.sessions()
        self._seen = {process for process in self._seen if _lives(process)}
        return self._seen

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
