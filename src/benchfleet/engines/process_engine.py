"""What engines share whose slots are child processes: one thread reads and checks all of them."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.domain.resource import Need
from benchfleet.engines.base import (
    AttemptRequest,
    EngineEvent,
    Failed,
    SlotId,
    SlotLost,
    SlotQuiet,
    SlotSpec,
)
from benchfleet.engines.child import Child
from benchfleet.engines.exit_reasons import exit_reason, slot_lost, start_failure
from benchfleet.engines.frames import encode
from benchfleet.engines.io_loop import IoLoop
from benchfleet.engines.protocol import open_frame, request_frames
from benchfleet.engines.slot_reader import SlotReader
from benchfleet.errors import ProtocolError

CHECKS_PER_HEARTBEAT = 4
START_S = 60.0  # a slot may take so long to say hello, at least
CLOSE_GRACE_S = 10.0  # for a slot to end by itself
TERMINATE_GRACE_S = 15.0  # for a supervisor to end a slot and all that it started
VERDICT_HOLD_S = 10.0  # for the end of what was printed before a verdict
SHUTDOWN_POLL_S = 0.005


class ProcessEngine:
    """Runs slots as child processes; see `benchfleet.engines.base` for the contract.

    A subclass says how a slot is started (`_spawn`), what its request looks like there
    (`_order_fields`), and what its exit means (`_exit_event`). `post` is called from the engine's
    own thread, and from the caller's where a slot or a request cannot even begin.

    Twice in a heartbeat a slot's supervisor says that it looks after the slot, and whether that
    computes. A slot that computes is never silent, whatever holds Python's lock in it. One that
    neither speaks nor computes is reported (`SlotQuiet`) within two heartbeats and ended after
    `silence` seconds. Where its supervisor is silent too, `_check_silent` looks at it. A slot that
    hears nothing for `orphan_timeout` seconds ends itself.
    """

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        heartbeat: float,
        silence: float,
        orphan_timeout: float,
    ) -> None:
        self._post = post
        self._heartbeat, self._silence, self._orphan_timeout = heartbeat, silence, orphan_timeout
        # Reached by the last check within two heartbeats.
        self._quiet_after = (2 - 1 / CHECKS_PER_HEARTBEAT) * heartbeat
        self._slots: dict[SlotId, Child] = {}
        self._lock = threading.RLock()
        self._reader = SlotReader(post, self._terminate, self._stream_ended)
        self._checked = time.monotonic()  # when the slots were checked last
        self._loop = IoLoop(every=heartbeat / CHECKS_PER_HEARTBEAT, check=self._check_all)
        self._loop.start()

    # What a subclass says

    def _spawn(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        """Start the slot's process; more fields of its first frame. Raises OSError."""
        raise NotImplementedError

    def _request_fields(self, child: Child, request: AttemptRequest) -> dict[str, Any]:
        """The fields of the request's frame that differ by engine."""
        raise NotImplementedError

    def _exit_event(self, child: Child, code: int | None) -> SlotLost:
        """How the slot ended, from its process's exit code; None where that is unknown."""
        return slot_lost(child, child.reason or exit_reason(code), code)

    def _check_silent(self, child: Child) -> None:
        """Slot and supervisor were silent for two heartbeats: end the slot where it is sure that
        it will stay so."""

    def _exited(self, child: Child) -> None:
        """Called after the slot's last event."""

    # The contract

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            return list(self._slots)

    def expect(self, waiting: Mapping[Need, int]) -> None:
        """Its machines are here already."""

    def hosts(self) -> Sequence[str]:
        return ()

    def open(self, spec: SlotSpec) -> None:
        try:
            child, fields = self._spawn(spec)
        except OSError as error:
            self._post(SlotLost(slot=spec.slot, reason=start_failure(error)))
            return
        self._admit(spec, child, fields)

    def _admit(self, spec: SlotSpec, child: Child, fields: dict[str, Any]) -> None:
        """Watch a process that was started, and send its first frame."""
        opening = open_frame(
            spec, heartbeat=self._heartbeat, silence=self._orphan_timeout, **fields
        )
        with self._lock:
            self._slots[spec.slot] = child
            try:
                self._watch(child)
            except OSError as error:
                child.reason = start_failure(error)
                self._cleanup(child)
            else:
                self._send(spec.slot, opening)

    def run(self, slot: SlotId, request: AttemptRequest) -> None:
        """Send the request; one too large for a frame fails at once."""
        with self._lock:
            if (child := self._slots.get(slot)) is None:
                return  # its end is being posted
            try:
                for frame in request_frames(request, **self._request_fields(child, request)):
                    self._send(slot, frame)
            except ProtocolError as error:
                failure = Failure(stage="setup", kind="error", message=f"cannot be sent: {error}")
                self._post(Failed(slot=slot, attempt=request.attempt, failure=failure))

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._send(slot, encode("stop", attempt=attempt))

    def close(self, slot: SlotId) -> None:
        with self._lock:
            if child := self._slots.get(slot):
                child.closing_since = child.closing_since or time.monotonic()
                self._send(slot, encode("close"))

    def kill(self, slot: SlotId) -> None:
        with self._lock:
            if child := self._slots.get(slot):
                child.closing_since = child.closing_since or time.monotonic()
                self._terminate(child)

    def shutdown(self) -> None:
        for slot in self.slots():
            self.close(slot)
        self._wait_for_exits(CLOSE_GRACE_S)
        for slot in self.slots():
            self.kill(slot)
        self._wait_for_exits(inf)
        for child in list(self._slots.values()):
            self._cleanup(child)
        self._loop.end()

    def _wait_for_exits(self, most: float) -> None:
        """Wait until no slot is left, or for so many seconds."""
        until = time.monotonic() + most
        while self.slots() and self._loop.alive and time.monotonic() < until:
            time.sleep(SHUTDOWN_POLL_S)

    # Reading and writing

    def _watch(self, child: Child) -> None:
        """Have the loop read the slot's streams and notice its exit. Raises OSError."""
        reader = self._reader
        self._loop.add_reader(child.stdout, partial(self._guarded, child, reader.read_frames))
        self._loop.add_reader(child.stderr, partial(self._guarded, child, reader.read_output))
        if child.process.exited is not None:
            self._loop.add_reader(child.process.exited, partial(self._drain, child))

    def _send(self, slot: SlotId, data: bytes) -> None:
        """Write what the pipe takes now; the loop writes the rest."""
        with self._lock:
            if (child := self._slots.get(slot)) and child.stdin >= 0:
                child.outgoing += data
                child.flush()
                if child.outgoing:
                    self._loop.add_writer(child.stdin, partial(self._guarded, child, self._flush))

    def _flush(self, child: Child) -> bool:
        with self._lock:
            child.flush()
            if not child.outgoing:
                self._loop.remove(child.stdin)
        return bool(child.outgoing)

    def _guarded(self, child: Child, act: Callable[[Child], bool]) -> bool:
        """Do this for a slot that is still here: one `select` may report a slot and its exit,
        after which its file descriptors are another's. An error ends that slot alone."""
        if self._slots.get(child.id) is not child:
            return False
        try:
            return act(child)
        except ProtocolError as error:
            child.deaf = True
            early = child.remote and not child.greeted
            hint = "; a login script there must print nothing" if early else ""
            self._terminate(child, f"spoke no frames: {error}{hint}")
        except Exception as error:  # noqa: BLE001 - the other slots are to be served on
            child.log_line(traceback.format_exc())
            self._terminate(child, f"the engine failed on it: {error!r}")
        return False

    def _stream_ended(self, child: Child, handle: int) -> None:
        with self._lock:
            child.open_streams.discard(handle)
            self._loop.remove(handle)
        if not child.open_streams:
            self._cleanup(child)

    def _drain(self, child: Child) -> bool:
        """The process has exited: read what is left of its output, then clean up."""
        for read in (self._reader.read_frames, self._reader.read_output):
            while self._guarded(child, read):
                continue
        return self._guarded(child, self._cleanup)

    # Checking

    def _check_all(self, now: float) -> None:
        """Check every slot. Where this process itself was suspended, or busy, no slot is blamed
        for its silence."""
        with self._lock:
            slots = list(self._slots.values())
            if now - self._checked > 2 * self._heartbeat:
                for child in slots:
                    child.last_activity = child.supervised = now
            self._checked = now
        for child in slots:
            self._guarded(child, self._check)

    def _check(self, child: Child) -> bool:
        now = self._checked  # where all slept since, the next check excuses it
        if child.process.poll() is not None:
            return self._drain(child)
        if now - child.verdict_since > VERDICT_HOLD_S:
            self._reader.emit_verdict(child)
        silent = now - max(child.last_activity, child.computed)
        limit = self._silence if child.greeted else max(self._silence, START_S)
        if child.terminating_since is not None:
            if now - child.terminating_since > TERMINATE_GRACE_S:
                child.kill()
        elif child.closing_since is not None and now - child.closing_since > CLOSE_GRACE_S:
            self._terminate(child)
        elif silent > limit:
            self._terminate(child, f"silent for {silent:.0f} s")
        else:
            if self._is_unsupervised(child):
                self._check_silent(child)
            if child.greeted and not child.quiet and silent > self._quiet_after:
                child.quiet = True
                self._post(SlotQuiet(slot=child.id, ended_at=self._silence))
            if now - child.pinged >= self._heartbeat:
                child.pinged = now
                self._send(child.id, encode("ping"))
        return True

    def _is_unsupervised(self, child: Child) -> bool:
        """Whether slot and supervisor were silent for two heartbeats."""
        return self._checked - max(child.last_activity, child.supervised) > self._quiet_after

    # Ending

    def _terminate(self, child: Child, reason: str = "") -> None:
        """Have its supervisor end it, with all that it started."""
        with self._lock:
            child.reason = child.reason or reason
            self._loop.remove(child.stdin)
            child.terminate()

    def _cleanup(self, child: Child) -> bool:
        """Release a slot that ended, end what it left behind, and post its last event."""
        code = None
        try:
            with self._lock:  # held throughout: nobody may find a slot whose channel is closed
                try:
                    for handle in child.handles:
                        self._loop.remove(handle)
                    code = child.release()
                finally:
                    del self._slots[child.id]
        finally:
            self._reader.emit_verdict(child)
            self._post(self._exit_event(child, code))
            self._exited(child)
        return False
