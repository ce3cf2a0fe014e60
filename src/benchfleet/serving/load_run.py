"""A running load test: the client processes, and the requests that they report."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchfleet.serving.journal import Entry, JournalReader
from benchfleet.serving.request import Request

START_TIMEOUT_S = 60.0  # of a client, on a busy machine
_BEGIN_AFTER_NS = 50_000_000
_NS = 1_000_000_000


class ClientLost(Exception):
    """A load client ended before it was done."""


class Second(NamedTuple):
    """What a client says of itself once a second."""

    second: int  # since the start
    cpu: float  # seconds of CPU time in it
    lag_p50_ms: float  # how late a 10 ms timer was
    lag_max_ms: float
    delay_p99_ms: float  # from scheduled to sent
    open: int  # requests under way
    part: int  # which client
    segment: int = 0

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class LoadRun:
    """A context manager: the clients run inside it, and none outlives it."""

    def __init__(
        self, spec: Mapping[str, Any], *, clients: int = 1, ndjson: bool, segment: int = 0
    ) -> None:
        self._spec, self._clients = spec, clients
        self._ndjson, self._segment = ndjson, segment
        self._folder = TemporaryDirectory(prefix="benchfleet-load-")
        self._processes: list[subprocess.Popen[str]] = []
        self._readers: list[JournalReader] = []
        self._ended = 0
        self.origin = 0  # `perf_counter_ns` at the start
        self.seconds: list[Second] = []

    def __enter__(self) -> LoadRun:
        try:
            for part in range(self._clients):
                self._start(part)
            for process in self._processes:
                self._await_ready(process)
            self.origin = time.perf_counter_ns() + _BEGIN_AFTER_NS
            self._tell(f"go {self.origin}")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """The clients' processes."""
        return [process.pid for process in self._processes]

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return (time.perf_counter_ns() - self.origin) / _NS

    @property
    def done(self) -> bool:
        """Whether all clients said that they are done."""
        return self._ended == self._clients

    def stop(self) -> None:
        """Send nothing more; answers under way are awaited."""
        self._tell("stop")

    def requests(self) -> Iterator[Request]:
        """The requests that ended since the last call. Raises ClientLost, after the last one."""
        for entry in self.entries():
            yield Request.from_entry(entry, ndjson=self._ndjson, segment=self._segment)

    def entries(self) -> Iterator[Entry]:
        """The same, as the journals have them: nobody has read yet what the server sent."""
        lost = [one for one in self._processes if one.poll() not in (None, 0)]
        for reader in self._readers:
            for entry in reader.read():
                if self._is_request(entry):
                    yield entry
        if lost and not self.done:
            code = lost[0].returncode
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise ClientLost(f"the load client ended by {how}{self._log()}")

    def close(self) -> None:
        """End the clients, whatever they do."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, ValueError):
                    if pipe:
                        pipe.close()
        for reader in self._readers:
            reader.close()
        self._processes = []
        self._folder.cleanup()

    def _is_request(self, entry: Entry) -> bool:
        """Whether it is one; what a client says of itself is kept."""
        if "second" in entry.fields:
            self.seconds.append(Second(**entry.fields, segment=self._segment))
        elif entry.fields.get("ended"):
            self._ended += 1
        return "n" in entry.fields

    def _start(self, part: int) -> None:
        journal = Path(self._folder.name) / f"journal-{part}"
        with open(self._log_file, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchfleet.serving.client", str(journal)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env=dict(os.environ),
            )
        self._processes.append(process)
        self._readers.append(JournalReader(journal))
        spec = {**self._spec, "part": (part, self._clients)}
        self._write(process, json.dumps(spec))

    def _await_ready(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            raise RuntimeError("the client has no output")
        readable, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
        if not readable or process.stdout.readline().strip() != "ready":
            raise ClientLost(f"the load client did not start{self._log()}")

    def _tell(self, words: str) -> None:
        for process in self._processes:
            self._write(process, words)

    def _write(self, process: subprocess.Popen[str], line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # it ended; `requests` says so
            if process.stdin:
                process.stdin.write(line + "\n")
                process.stdin.flush()

    @property
    def _log_file(self) -> Path:
        return Path(self._folder.name) / "client.log"

    def _log(self) -> str:
        with contextlib.suppress(OSError):
            if text := self._log_file.read_text("utf-8", "replace").strip():
                return f". The end of its log:\n{text[-2000:]}"
        return ""
