"""A server process that a slot starts, waits for, watches and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchfleet.domain.error_signatures import find_error_signature
from benchfleet.domain.failure import Kind, Stage
from benchfleet.environment import without_token
from benchfleet.errors import CellFailure
from benchfleet.models.served.recipes import PORT, Recipe, find_program

START_TIMEOUT_S = 600.0
TERM_TIMEOUT_S = 5.0  # a server in mid-answer may take longer to end than anyone waits
MAX_STARTS = 3  # where another process takes the port first
LOG_TAIL_LINES = 40
_POLL_S, _HEALTH_TIMEOUT_S = 0.1, 5.0
_LASTING: tuple[Kind, ...] = ("missing_extra", "user_error")  # failures that trying again repeats
_MISSING_PACKAGE = ("ModuleNotFoundError:", "ImportError:")
_PORT_TAKEN = ("address already in use", "errno 98", "couldn't bind")
_WRONG_ARGUMENTS = (  # as argparse, click, llama.cpp and cobra say it
    *("unrecognized arguments", "invalid choice", "expected one argument", "no such option"),
    *("invalid argument: -", "unknown argument: -", "invalid value for '-", "unknown flag"),
    "\nusage: ",
)


class ManagedServer:
    """One server on a free loopback port, with its log in a folder of its own.

    It is a child of the slot and bears its marker, so it ends with the slot in any case.
    """

    def __init__(
        self,
        recipe: Recipe,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        start_timeout_s: float = START_TIMEOUT_S,
        free_port: Callable[[], int] | None = None,
    ) -> None:
        self._recipe, self._command = recipe, command
        self._environment, self._timeout_s = environment, start_timeout_s
        self._free_port = free_port or _free_port
        self._folder = TemporaryDirectory(prefix="benchfleet-server-")
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.load_seconds = 0.0

    @property
    def log(self) -> Path:
        """What the server printed."""
        return Path(self._folder.name) / "server.log"

    @property
    def pid(self) -> int | None:
        """Its process; None before the start."""
        return self._process.pid if self._process else None

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it is ready: it lives, it listens itself, and its health is 200.
        Raises CellFailure, after which nothing is left running."""
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        begun = time.monotonic()
        for attempt in range(1, MAX_STARTS + 1):
            port = self._free_port()
            self._open(port)
            if self._wait(port, begun + self._timeout_s):
                self.url = f"http://127.0.0.1:{port}"
                self.load_seconds = time.monotonic() - begun
                return
            log = self.tail().lower()
            if attempt == MAX_STARTS or not any(words in log for words in _PORT_TAKEN):
                break
        raise self._start_failure(begun)

    def memory(self) -> int:
        """Bytes of RAM that its processes hold."""
        total = 0
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def is_healthy(self) -> bool:
        """Whether one of its health pages answers 200."""
        return any(_answers(self.url + path) for path in self._recipe.health)

    def tail(self) -> str:
        """The last lines of its log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").splitlines()
            return without_token("\n".join(lines[-LOG_TAIL_LINES:]))
        return ""

    def with_log(self, message: str) -> str:
        """The message, and after it the end of the server's log."""
        tail = self.tail()
        return f"{message}. The end of the server's log:\n{tail}" if tail else message

    def failure(self, stage: Stage) -> CellFailure:
        """Why it is of no use any more, with the end of its log."""
        code = self._process.poll() if self._process else None
        sign = find_error_signature(self.tail())
        is_oom = code is not None and sign is not None and sign.kind == "oom"
        why = "stopped answering" if code is None else _end_of(code)
        return self._failure(stage, "oom" if is_oom else "server_died", why)

    def _start_failure(self, begun: float) -> CellFailure:
        """Why it did not become ready. What the user can correct is of stage setup, and is not
        tried again."""
        code = self._process.poll() if self._process else None
        if code is None:
            why = f"was not ready after {time.monotonic() - begun:.0f} s"
            why += "; raise start_timeout if it needs longer"
            return self._failure("load", "timeout", why)
        tail, why = self.tail(), _end_of(code)
        if code > 0 and any(words in tail for words in _MISSING_PACKAGE):
            why += f": a package is missing; {self._recipe.install}"
            return self._failure("setup", "missing_extra", why)
        if any(words in tail.lower() for words in _PORT_TAKEN):
            why += f": another process took its port, {MAX_STARTS} times"
            return self._failure("setup", "server_died", why)
        if code > 0 and any(words in f"\n{tail}".lower() for words in _WRONG_ARGUMENTS):
            why += ": it refuses its arguments; correct args of the model's server"
            return self._failure("setup", "user_error", why)
        return self.failure("load")

    def _failure(self, stage: Stage, kind: Kind, why: str) -> CellFailure:
        message = self.with_log(f"the server ({self._recipe.name}) {why}")
        return CellFailure(stage=stage, kind=kind, message=message, retryable=kind not in _LASTING)

    def end(self) -> None:
        """End it with all of its processes, and remove its log."""
        tree = self._tree()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGTERM)
            psutil.wait_procs(tree, timeout=TERM_TIMEOUT_S)
            for process in tree:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.wait()
            self._process = None
        self._folder.cleanup()

    def _open(self, port: int) -> None:
        words = [word.replace(PORT, str(port)) for word in self._command]
        program = find_program(words[0])
        if program is None:
            raise CellFailure(
                stage="setup",
                kind="missing_extra",
                message=f"the program {words[0]} is not installed on this host; "
                f"{self._recipe.install}",
            )
        environment = {
            name: value.replace(PORT, str(port))
            for name, value in {**self._recipe.environment, **self._environment}.items()
        }
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def _wait(self, port: int, until: float) -> bool:
        """Whether it became ready; False if it ended, or not in time."""
        url = f"http://127.0.0.1:{port}"
        while self.is_alive and time.monotonic() < until:
            if self._listens(port) and any(_answers(url + path) for path in self._recipe.health):
                return self.is_alive
            time.sleep(_POLL_S)
        return False

    def _listens(self, port: int) -> bool:
        """Whether one of its own processes listens there, and no other server."""
        for process in self._tree():
            with contextlib.suppress(psutil.Error):
                listed = getattr(process, "net_connections", process.connections)
                for one in listed(kind="tcp"):
                    if one.status == psutil.CONN_LISTEN and one.laddr.port == port:
                        return True
        return False

    def _tree(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []


def _end_of(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_HEALTH_TIMEOUT_S) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
