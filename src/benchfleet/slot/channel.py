"""The slot's end of its channel to the engine: sends frames, receives requests and pings."""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from benchfleet.engines.frames import Decoder, Frame, encode

READ_BYTES = 2**18


class Channel:
    """Frames over two file descriptors.

    One thread reads, so that pings arrive while a cell computes; another sends a ping every
    `heartbeat` seconds. `on_lost` is called with the reason when nothing arrives for `silence`
    seconds, when a frame is invalid, and when the other end is closed.
    """

    def __init__(
        self,
        reads: int,
        writes: int,
        *,
        heartbeat: float,
        silence: float,
        on_lost: Callable[[str], None],
    ) -> None:
        self._reads, self._writes = reads, writes
        self._heartbeat, self._silence, self._on_lost = heartbeat, silence, on_lost
        self._writing = threading.Lock()
        self.requests: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self.stopping: set[str] = set()  # attempts that were asked to stop

    def start(self) -> None:
        """Begin to read and to send pings."""
        for target in (self._listen, self._beat):
            threading.Thread(target=target, daemon=True).start()

    def send(self, type: str, attached: tuple[bytes, ...] = (), **fields: Any) -> None:
        """Send one frame; from any thread."""
        frame = encode(type, attached, **fields)
        with self._writing:
            data = memoryview(frame)
            while data:
                try:
                    data = data[os.write(self._writes, data) :]
                except OSError as error:
                    self._on_lost(f"cannot write: {error.strerror}")
                    return

    def _beat(self) -> None:
        while True:
            time.sleep(self._heartbeat)
            self.send("ping")

    def _listen(self) -> None:
        try:
            self._hear()
        except BaseException as error:  # noqa: BLE001 - a slot that is deaf must not seem alive
            self._on_lost(f"cannot read any more: {error!r}")

    def _hear(self) -> None:
        decoder = Decoder()
        while True:
            ready, _, _ = select.select([self._reads], [], [], self._silence)
            if not ready:
                self._on_lost(f"received nothing for {self._silence:g} s")
                return
            data = os.read(self._reads, READ_BYTES)
            if not data:
                self._on_lost("the engine closed the channel")
                return
            for frame in decoder.feed(data):
                if frame.type == "stop":
                    self.stopping.add(frame.fields["attempt"])
                elif frame.type != "ping":
                    self.requests.put(frame)
