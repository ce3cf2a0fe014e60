"""A process beside the runner that seals and publishes the results of short cells.

The threads of one Python take turns at every call of the system, and a small result is some sixty
of them: done in the runner they held up its loop for longer than they took. What one thread asks
goes over a channel of its own, as pickles between two processes of the same program.
"""

from __future__ import annotations

import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.errors import ResultsError
from benchfleet.results.drafts import Sealed
from benchfleet.results.publish import Leave, Moves, publish_all
from benchfleet.results.write import Sealing, seal_all

_PACKAGE = Path(__file__).parents[1]
_MAIN = "import sys; sys.path.insert(0, sys.argv[1]); from benchfleet.results.scribe import serve"
_GRACE = 10.0  # seconds that it is given to end


class Scribe:
    """The process and its channels. Until it is up, and where it cannot be or all channels are in
    use, what it is asked is done here."""

    def __init__(self, channels: int) -> None:
        self._idle: queue.SimpleQueue[_Channel] = queue.SimpleQueue()
        self._channels: list[_Channel] = []
        theirs: list[int] = []
        for _ in range(channels):
            near, far = socket.socketpair()
            self._channels.append(_Channel(near))
            theirs.append(far.detach())
        words = [sys.executable, "-c", f"{_MAIN}; serve(sys.argv[2:])", str(_PACKAGE.parent)]
        try:
            # In a session of its own, since Ctrl-C is the runner's to answer.
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [*words, *map(str, theirs)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=theirs,
                start_new_session=True,
            )
        except OSError:
            self._process = None
        finally:
            for handle in theirs:
                os.close(handle)
        self._greeting = threading.Thread(target=self._greet, name="scribe", daemon=True)
        self._greeting.start()

    def _greet(self) -> None:
        for channel in self._channels:
            with suppress(OSError, EOFError):
                channel.hear()
                self._idle.put(channel)

    def close(self) -> None:
        """End it; nobody asks it any more."""
        for channel in self._channels:
            channel.end()
        self._greeting.join()
        for channel in self._channels:
            channel.close()
        if self._process is not None:
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def seal_all(self, some: Sequence[Sealing]) -> Sequence[Sealed | Exception]:
        """As `benchfleet.results.write.seal_all`. A cell that took long, or has much, of which
        samples are in its file already, is sealed here: for it that matters little."""
        here = [one for one in some if one.folder.recorded]
        there = [one for one in some if not one.folder.recorded]
        found = iter(self._sealed(there) if there else ())
        others = iter(seal_all(here))
        return [next(others if one.folder.recorded else found) for one in some]

    def _sealed(self, some: Sequence[Sealing]) -> Sequence[Sealed | Exception]:
        try:
            ours = [replace(one, folder=one.folder.unwritten()) for one in some]
            sealed: Sequence[Sealed | Exception] = self.ask(seal_all, ours)
        except _Gone as error:
            return [error] * len(some)
        return sealed

    def publish_all(
        self, moves: Moves, *, leave: Leave = os.rmdir
    ) -> Sequence[ResultsError | None]:
        """As `benchfleet.results.publish.publish_all`."""
        found: Sequence[ResultsError | None]
        try:
            found, empty = self.ask(_publish, moves)
        except _Gone:  # it may have come to the renames, which are done once
            found, empty = _publish(moves)
        for left in empty:
            with suppress(OSError):
                leave(left)
        return found

    def ask(self, work: Callable[..., Any], *values: Any) -> Any:
        """What this function of a module answers, called there. Raises what it raises, and OSError
        where the process is gone: then nobody knows how far it came."""
        try:
            channel = self._idle.get_nowait()
        except queue.Empty:
            return work(*values)
        try:
            answer, error = channel.ask(work, values)
        except (OSError, EOFError, pickle.PickleError) as failure:
            raise _Gone("the process that writes results ended") from failure
        self._idle.put(channel)
        if error is not None:
            raise error
        return answer


class _Gone(OSError):
    """The process ended while it was asked."""


class _Channel:
    """One end of a channel, over which one is asked after the other."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._stream = ours.makefile("rwb")

    def ask(self, work: Callable[..., Any], values: Sequence[Any]) -> Any:
        self.tell((work, values))
        return self.hear()

    def tell(self, said: Any) -> None:
        self._stream.write(pickle.dumps(said, pickle.HIGHEST_PROTOCOL))
        self._stream.flush()

    def hear(self) -> Any:
        return pickle.load(self._stream)  # noqa: S301 - of our own process

    def end(self) -> None:
        """Whoever hears on it hears the end."""
        with suppress(OSError):  # the other end is closed
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):  # what was not sent
            self._stream.close()
        self._socket.close()


def _publish(moves: Moves) -> tuple[Sequence[ResultsError | None], list[Path]]:
    """Publish; what went wrong, and the folders that are left empty."""
    left: list[Path] = []
    return publish_all(moves, leave=left.append), left


def serve(handles: Sequence[str]) -> None:
    """Answer on these channels until the runner closes them, or is gone."""
    serving = [
        threading.Thread(target=_answer, args=(socket.socket(fileno=int(handle)),))
        for handle in handles
    ]
    for thread in serving:
        thread.start()


def _answer(theirs: socket.socket) -> None:
    channel = _Channel(theirs)
    with suppress(OSError, EOFError):
        channel.tell("ready")
        while True:
            work, values = channel.hear()
            try:
                answer, wrong = work(*values), None
            except Exception as error:  # noqa: BLE001 - whoever asked judges it
                answer, wrong = None, error
            channel.tell((answer, wrong))
