"""Reads what slots and their supervisors say, and posts it as events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from benchfleet.engines.base import Done, Failed, Post, SlotReady, Stopped
from benchfleet.engines.child import Child
from benchfleet.engines.exit_reasons import version_mismatch
from benchfleet.engines.frames import Frame
from benchfleet.engines.log_markers import Marker
from benchfleet.engines.protocol import to_event, to_unfit

READ_BYTES = 2**20


class SlotReader:
    """Posts what slots report. `terminate` ends a slot for a reason; `stream_ended` receives the
    stream that ended."""

    def __init__(
        self,
        post: Post,
        terminate: Callable[[Child, str], object],
        stream_ended: Callable[[Child, int], object],
    ) -> None:
        self._post, self._terminate, self._stream_ended = post, terminate, stream_ended

    def read_frames(self, child: Child) -> bool:
        """Read some of the slot's frames; whether there may be more. Raises ProtocolError."""
        data = self._read(child, child.stdout)
        if data:
            child.note_activity()
        if data and not child.deaf:
            for frame in child.decoder.feed(data):
                self._handle_frame(child, frame)
        return bool(data)

    def read_output(self, child: Child) -> bool:
        """Read some of what its supervisor says and a remote slot prints; whether there may be
        more."""
        data = self._read(child, child.stderr)
        for marker in child.write_output(data):
            self._handle_marker(child, marker)
        return bool(data)

    def emit_verdict(self, child: Child) -> None:
        """Post the verdict that is held, if any."""
        verdict, child.verdict = child.verdict, None
        if verdict is not None:
            self._post(verdict)

    def _read(self, child: Child, handle: int) -> bytes:
        if handle not in child.open_streams:
            return b""
        try:
            data = os.read(handle, READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionResetError:  # it ended before it had read all that was sent
            data = b""
        if not data:
            self._stream_ended(child, handle)
        return data

    def _handle_frame(self, child: Child, frame: Frame) -> None:
        if frame.type == "hello":
            if reason := version_mismatch(frame):
                child.deaf = True
                self._terminate(child, reason)
                return
            child.greeted = True
            self._post(SlotReady(slot=child.id, hello=frame.fields))
        elif frame.type == "unfit":
            reason, child.unfit, child.busy = to_unfit(frame)
            self._terminate(child, reason)
        elif frame.type != "ping":
            event = to_event(child.id, frame)
            if child.remote and isinstance(event, (Done, Failed, Stopped)):
                # held until its log is complete: that comes over another stream
                child.verdict, child.verdict_since = event, time.monotonic()
                if child.output_file == child.log:
                    self.emit_verdict(child)
            else:
                self._post(event)

    def _handle_marker(self, child: Child, marker: Marker) -> None:
        if marker.word in ("computes", "waits"):
            child.supervised = time.monotonic()
            if marker.word == "computes":
                child.computed = child.supervised
        elif marker.word == "end" and marker.value == child.attempt:
            self.emit_verdict(child)
        elif marker.word == "ended":
            status, _, cause = marker.value.partition(" ")
            child.wait_status = int(status) if status.isdigit() else child.wait_status
            child.note_cause(cause)
