"""The process that stands for a slot here, and the ends of its channel."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchfleet.domain.failure import KINDS, Kind
from benchfleet.engines.base import SlotEvent, SlotId
from benchfleet.engines.frames import Decoder
from benchfleet.engines.marks import Mark, Marks
from benchfleet.engines.processes import end_tree

_LAST = 1.0  # seconds for a supervisor that has closed all to be gone


class Child:
    """A child process whose streams are a slot's channel, and which ends as the slot ends.

    Of a slot on this machine it is the supervisor. Of a slot elsewhere (`far`) it is the client
    that reaches it. Over standard error comes what the supervisor says, as marks (`key`), and what
    a slot elsewhere prints. Making one starts it; raises OSError with nothing left behind where
    that cannot be.
    """

    def __init__(
        self, slot: SlotId, words: Sequence[str], *, log: Path, key: str, far: bool = False
    ) -> None:
        self.id = slot
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab").close()
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.reads = _pipe(self.process.stdout)
        self.writes = _pipe(self.process.stdin)  # -1 once it is closed
        self.pidfd = _pidfd(self.process.pid)
        self.prints = _pipe(self.process.stderr)
        self.marks = Marks(key)
        self.far = far
        self.listening = {self.reads, self.prints}
        self.decoder = Decoder()
        self.outgoing = bytearray()
        self.heard = self.pinged = time.monotonic()
        self.overseen = self.computed = self.heard  # as its supervisor says
        self.quiet = False  # it was told that nothing is heard of it
        self.missed = False  # its host is asked, since of its supervisor nothing is heard either
        self.greeted = False  # it said hello
        self.printing_to = log  # the file that takes what a far slot prints
        self.scratch = ""  # where a far slot has its scratch folders
        self.orders, self.attempt = 0, ""  # how many it was given, and the last one's attempt
        self.verdict: SlotEvent | None = None  # held until all that was printed before it is here
        self.verdict_since = 0.0
        self.alone = False  # its supervisor has seen that nothing is left of all that it started
        self.ended: int | None = None  # the wait status that a far slot's supervisor told
        self.ending_since: float | None = None  # told to close, or killed
        self.doomed_since: float | None = None  # told to end with all that it started
        self.deaf = False  # what it says is not to be believed any more
        self.complaint = ""  # why the engine itself ended it
        self.kind: Kind | None = None  # what its supervisor ended it for
        self.unfit: tuple[int, ...] = ()  # GPUs that it found unfit before it said hello
        self.busy = False  # because somebody else computes there

    @property
    def handles(self) -> tuple[int, ...]:
        """The file descriptors that this process has of it."""
        handles = (*self.listening, self.writes, -1 if self.pidfd is None else self.pidfd)
        return tuple(handle for handle in handles if handle >= 0)

    def flush(self) -> None:
        """Write what the pipe takes now."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(self.writes, self.outgoing)]
        except BlockingIOError:
            return
        except OSError:  # nobody is there to read it; its end is about to be seen
            self.outgoing.clear()

    def end(self) -> None:
        """Have its supervisor end the slot and all that it started. Nobody watches `writes` now."""
        self.doomed_since = self.doomed_since or time.monotonic()
        if self.far:
            self.outgoing.clear()
            if self.process.stdin is not None:
                self.process.stdin.close()  # which its supervisor hears, wherever it is
                self.writes = -1
        else:
            self.process.send_signal(signal.SIGTERM)

    def end_by_force(self) -> None:
        """Kill what is left of it here, supervisor and all."""
        if not self.far:
            end_tree(self.process.pid if self.process.poll() is None else None, self.id)
        elif self.process.poll() is None:
            self.process.kill()

    def print(self, data: bytes) -> list[Mark]:
        """Put what a far slot printed where it belongs; the marks found in it."""
        found = []
        for part in self.marks.feed(data):
            if isinstance(part, Mark):
                found.append(part)
                if part.word == "end" and part.value == self.attempt:
                    self.printing_to = self.log
            else:
                self.hear()
                self._add(self.printing_to, part)
        return found

    def hear(self) -> None:
        """It showed a sign of life of its own."""
        self.heard, self.quiet = time.monotonic(), False

    def note(self, text: str) -> None:
        """Add to the slot's log, where that can be written."""
        self._add(self.log, text.encode("utf-8", "backslashreplace"))

    def last_words(self) -> str:
        """The last line that it printed between orders; ``""`` where there is none."""
        with contextlib.suppress(OSError):
            lines = self.log.read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def take_cause(self, text: str) -> None:
        """Believe what its supervisor says of why it ended it: a kind and a message."""
        word, _, message = text.partition(" ")
        kind = next((kind for kind in KINDS if kind == word), None)
        if kind is not None and not self.complaint:
            self.kind, self.complaint = kind, message

    def bury(self) -> int:
        """Wait for it, let go of the channel and of an empty log; its exit code."""
        self._add(self.printing_to, self.marks.rest())
        if self.alone and not self.far:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_LAST)
        if not self.alone or self.process.poll() is None:
            self.end_by_force()  # it looks for what is left in all processes there are
        code = self.process.wait()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        if self.ending_since is not None and not self.complaint:
            with contextlib.suppress(OSError):
                if self.log.stat().st_size == 0:
                    self.log.unlink()
        return code

    def _add(self, file: Path, data: bytes) -> None:
        if data:
            with contextlib.suppress(OSError), open(file, "ab") as log:
                log.write(data)


def _pipe(stream: object) -> int:
    handle: int = stream.fileno()  # type: ignore[attr-defined]
    os.set_blocking(handle, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, 2**20)
    return handle


def _pidfd(pid: int) -> int | None:
    """A handle that tells the process's end; None where the system has none to give."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None
