"""The process that stands for a slot, and its ends of the slot's channel."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from benchfleet.domain.failure import KINDS, Kind
from benchfleet.engines.base import SlotEvent, SlotId
from benchfleet.engines.frames import Decoder
from benchfleet.engines.log_markers import Marker, MarkerParser
from benchfleet.engines.slot_process import SlotProcess

EXIT_GRACE_S = 1.0  # for a process that has closed its streams


class Child:
    """A process whose streams are a slot's channel, and which ends as the slot ends.

    Of a local slot it is the supervisor; of a `remote` slot it stands for the supervisor elsewhere.
    Its standard error carries what the supervisor says, as markers (`key`), and what a remote slot
    prints.
    """

    def __init__(
        self, slot: SlotId, process: SlotProcess, *, log: Path, key: str, remote: bool = False
    ) -> None:
        self.id = slot
        self.log = log
        self.process = process
        self.stdin = process.stdin  # -1 once it is closed
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.markers = MarkerParser(key)
        self.remote = remote
        self.open_streams = {self.stdout, self.stderr}
        self.decoder = Decoder()
        self.outgoing = bytearray()
        self.last_activity = self.pinged = time.monotonic()
        self.supervised = self.computed = self.last_activity  # as its supervisor says
        self.quiet = False  # its silence was posted
        self.probed = False  # its host is asked, since its supervisor is silent too
        self.greeted = False  # it said hello
        self.output_file = log  # takes what a remote slot prints
        self.scratch = ""  # where a remote slot has its scratch folders
        self.requests, self.attempt = 0, ""  # how many it was given, and the last one's attempt
        self.verdict: SlotEvent | None = None  # held until all that was printed before it is here
        self.verdict_since = 0.0
        self.wait_status: int | None = None  # as a remote slot's supervisor says
        self.closing_since: float | None = None  # asked to end, by `close` or `kill`
        self.terminating_since: float | None = None  # its supervisor is to end all
        self.deaf = False  # its frames are ignored from now on
        self.reason = ""  # why the engine or its supervisor ended it
        self.kind: Kind | None = None  # what its supervisor ended it for
        self.host_lost = False  # the engine ended it because its host was lost
        self.unfit: tuple[int, ...] = ()  # GPUs that it found unfit before it said hello
        self.busy = False  # because somebody else computes there

    @property
    def handles(self) -> tuple[int, ...]:
        """The open file descriptors that lead to it."""
        exited = self.process.exited
        handles = (*self.open_streams, self.stdin, -1 if exited is None else exited)
        return tuple(handle for handle in handles if handle >= 0)

    def flush(self) -> None:
        """Write what the pipe takes now."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.stdin, self.outgoing)]
        except BlockingIOError:
            return
        except OSError:  # nobody is there to read it; its end is about to be seen
            self.outgoing.clear()

    def terminate(self) -> None:
        """Have its supervisor end the slot and all that it started. Nobody watches `stdin` now."""
        self.terminating_since = self.terminating_since or time.monotonic()
        if self.remote:
            self.outgoing.clear()
            self.stdin = -1
        self.process.terminate()

    def kill(self) -> None:
        """Kill what is left of it on this machine, supervisor and all."""
        self.process.kill()

    def write_output(self, data: bytes) -> list[Marker]:
        """Write what a remote slot printed to its log; the markers found in it."""
        markers = []
        for part in self.markers.feed(data):
            if isinstance(part, Marker):
                markers.append(part)
                if part.word == "end" and part.value == self.attempt:
                    self.output_file = self.log
            else:
                self.note_activity()
                _append(self.output_file, part)
        return markers

    @property
    def orphaned(self) -> bool:
        """Whether its supervisor ended it because it had lost its runner."""
        return self.kind == "host_lost"

    def note_activity(self) -> None:
        """The slot itself showed a sign of life."""
        self.last_activity, self.quiet = time.monotonic(), False

    def note_cause(self, text: str) -> None:
        """Take over why its supervisor ended it: a kind and a message. That its runner is gone is
        no news of a slot that the engine ends."""
        word, _, message = text.partition(" ")
        if word == "host_lost" and (self.terminating_since or self.closing_since):
            return
        kind = next((kind for kind in KINDS if kind == word), None)
        if kind is not None and not self.reason:
            self.kind, self.reason = kind, message

    def log_line(self, text: str) -> None:
        """Add to the slot's log, where that can be written."""
        _append(self.log, text.encode("utf-8", "backslashreplace"))

    def last_logged(self) -> str:
        """The last line that it printed between requests; ``""`` where there is none."""
        with contextlib.suppress(OSError):
            lines = self.log.read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def release(self) -> int | None:
        """End what is left of it, close its channel, remove an empty log; its exit code."""
        _append(self.output_file, self.markers.rest())
        if not self.open_streams:
            self.process.wait(EXIT_GRACE_S)
        if self.process.poll() != 0:  # with 0 a supervisor exits once it has ended all
            self.kill()
        code = self.process.release()
        if self.closing_since is not None and not self.reason:
            with contextlib.suppress(OSError):
                if self.log.stat().st_size == 0:
                    self.log.unlink()
        return code


def create_log(log: Path) -> None:
    """Create a slot's log. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.open("ab").close()


def _append(file: Path, data: bytes) -> None:
    if data:
        with contextlib.suppress(OSError), open(file, "ab") as log:
            log.write(data)
