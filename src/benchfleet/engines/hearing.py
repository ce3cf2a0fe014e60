"""What slots and their supervisors say, and what their frames and marks mean."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from benchfleet.engines.base import Done, Failed, Post, SlotReady, Stopped
from benchfleet.engines.child import Child
from benchfleet.engines.ends import refusal
from benchfleet.engines.frames import Frame
from benchfleet.engines.marks import Mark
from benchfleet.engines.wire import to_event, to_unfitness

_PIECE = 2**20  # bytes read at once
_HELD = 10.0  # seconds that a verdict waits for the end of what was printed before it


class Hearing:
    """Posts what slots say. `condemn` ends one of them, with the reason; `over` is told when one of
    its streams has ended."""

    def __init__(
        self,
        post: Post,
        condemn: Callable[[Child, str], object],
        over: Callable[[Child, int], object],
    ) -> None:
        self._post, self._condemn, self._over = post, condemn, over

    def read(self, child: Child) -> bool:
        """Take in a piece of what the slot said; whether there may be more. Raises
        ProtocolError."""
        data = self._piece(child, child.reads)
        if data:
            child.hear()
        if data and not child.deaf:
            for frame in child.decoder.feed(data):
                self._take(child, frame)
        return bool(data)

    def read_prints(self, child: Child) -> bool:
        """Take in a piece of what its supervisor said and a far slot printed; whether there may
        be more."""
        data = self._piece(child, child.prints)
        for mark in child.print(data):
            self._take_mark(child, mark)
        return bool(data)

    def _piece(self, child: Child, handle: int) -> bytes:
        """What one of its streams has now."""
        if handle not in child.listening:
            return b""
        try:
            data = os.read(handle, _PIECE)
        except BlockingIOError:
            return b""
        if not data:
            self._over(child, handle)
        return data

    def _take(self, child: Child, frame: Frame) -> None:
        if frame.type == "hello":
            if why := refusal(frame):
                child.deaf = True
                self._condemn(child, why)
                return
            child.greeted = True
            self._post(SlotReady(slot=child.id, hello=frame.fields))
        elif frame.type == "unfit":
            reason, child.unfit, child.busy = to_unfitness(frame)
            self._condemn(child, reason)
        elif frame.type != "ping":
            event = to_event(child.id, frame)
            if child.far and isinstance(event, (Done, Failed, Stopped)):
                child.verdict = event  # until its mark is found in what was printed
                child.verdict_since = time.monotonic()
                if child.printing_to == child.log:
                    self.pronounce(child)
            else:
                self._post(event)

    def _take_mark(self, child: Child, mark: Mark) -> None:
        if mark.word in ("computes", "waits"):
            child.overseen = time.monotonic()
            if mark.word == "computes":
                child.computed = child.overseen
        elif mark.word == "end" and mark.value == child.attempt:
            self.pronounce(child)
        elif mark.word == "alone":
            child.alone = True
        elif mark.word == "ended":
            status, _, cause = mark.value.partition(" ")
            child.ended = int(status) if status.isdigit() else child.ended
            child.take_cause(cause)

    def pronounce(self, child: Child, now: float | None = None) -> None:
        """Post the verdict that was held; by `now`, only where it was held long enough."""
        if now is not None and now - child.verdict_since <= _HELD:
            return
        verdict, child.verdict = child.verdict, None
        if verdict is not None:
            self._post(verdict)
