"""Slots on this machine: one process each, one thread for all their channels."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    Failed,
    Order,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
)
from benchfleet.engines.child import Child
from benchfleet.engines.frames import PROTOCOL, Frame, encode, whole_lines
from benchfleet.engines.wire import to_event
from benchfleet.errors import ProtocolError

_PACKAGE = str(Path(__file__).parents[1])
_PIECE = 2**20  # bytes read at once
_RECORDED = 8 * 2**20  # bytes of earlier samples in one frame
_GRACE = 10.0  # seconds that a slot told to close is given
_LAST_GRACE = 15.0  # seconds that its supervisor is given to end all
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n), or run fewer slots",
    errno.ENFILE: "raise the system's limit of open files, or run fewer slots",
    errno.EAGAIN: "raise the limit of processes (ulimit -u), or run fewer slots",
    errno.ENOMEM: "run fewer slots, so that memory is left",
    errno.ENOSPC: "make room on the disk",
    errno.ENOTDIR: "move away what stands in the place of a folder",
    errno.EEXIST: "move away what stands in the place of a folder",
    errno.EACCES: "make it accessible to this user",
    errno.ENOENT: "see that it is still there",
}


class LocalEngine:
    """Opens slots as child processes; see `benchfleet.engines.base` for the contract.

    `post` is called from the engine's own thread, and from the caller's where a slot or an order
    cannot even begin. A slot that shows no sign of life for `silence` seconds is ended; one that
    hears nothing for `patience` seconds ends itself: longer, because a runner that is suspended
    for a while means no harm, and one that died is known at once.
    """

    def __init__(
        self,
        post: Callable[[SlotEvent], None],
        *,
        heartbeat: float = 5.0,
        silence: float = 60.0,
        patience: float = 1800.0,
    ) -> None:
        self._post = post
        self._heartbeat, self._silence, self._patience = heartbeat, silence, patience
        self._slots: dict[SlotId, Child] = {}
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = os.pipe()
        for end in (self._waking, self._woken):
            os.set_blocking(end, False)
        self._selector.register(self._waking, selectors.EVENT_READ, None)
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="slots", daemon=True)
        self._thread.start()

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            return list(self._slots)

    def open(self, spec: SlotSpec) -> None:
        try:
            child = Child(spec)
        except OSError as error:
            self._post(SlotLost(slot=spec.slot, reason=_unstarted(error)))
            return
        gpus = [str(device.index) for device in spec.devices if device.kind == "gpu"]
        opening = encode(
            "open",
            slot=spec.slot,
            gpus=",".join(gpus),
            threads=spec.threads,
            log=spec.log,
            python=spec.python,
            package=_PACKAGE,
            parent=os.getpid(),
            heartbeat=self._heartbeat,
            silence=self._patience,
        )
        with self._lock:
            self._slots[spec.slot] = child
            try:
                for handle in (child.reads, child.pidfd):
                    if handle is not None:
                        self._selector.register(handle, selectors.EVENT_READ, child)
            except OSError as error:
                child.complaint = _unstarted(error)
                self._bury(child)
            else:
                self._tell(spec.slot, opening)

    def run(self, slot: SlotId, order: Order) -> None:
        """Hand the order over; one too large for a frame fails at once."""
        attempt = order.attempt
        try:
            for piece in whole_lines(order.recorded, _RECORDED):
                self._tell(slot, encode("recorded", (piece,), attempt=attempt))
            cell = order.cell.to_dict()
            self._tell(slot, encode("run", attempt=attempt, cell=cell, log=order.log))
        except ProtocolError as error:
            failure = Failure(stage="setup", kind="error", message=f"cannot be sent: {error}")
            self._post(Failed(slot=slot, attempt=attempt, failure=failure))

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._tell(slot, encode("stop", attempt=attempt))

    def close(self, slot: SlotId) -> None:
        with self._lock:
            if child := self._slots.get(slot):
                child.ending_since = child.ending_since or time.monotonic()
        self._tell(slot, encode("close"))

    def kill(self, slot: SlotId) -> None:
        with self._lock:
            if child := self._slots.get(slot):
                child.ending_since = child.ending_since or time.monotonic()
                child.end()

    def shutdown(self) -> None:
        for slot in self.slots():
            self.close(slot)
        deadline = time.monotonic() + _GRACE
        while self.slots() and time.monotonic() < deadline:
            time.sleep(0.005)
        for slot in self.slots():
            self.kill(slot)
        while self.slots() and self._thread.is_alive():
            time.sleep(0.005)
        for child in list(self._slots.values()):
            self._bury(child)
        if not self._ended:
            self._ended = True
            self._wake()
            self._thread.join()
            os.close(self._woken)

    def _tell(self, slot: SlotId, data: bytes) -> None:
        """Write what the pipe takes now; the engine's thread writes the rest."""
        with self._lock:
            if child := self._slots.get(slot):
                child.outgoing += data
                child.flush()
                if child.outgoing:
                    self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._woken, b"!")

    def _serve(self) -> None:
        next_beat = time.monotonic() + self._heartbeat
        awake = time.monotonic()
        while not self._ended:
            self._watch_writes()
            found = self._selector.select(max(0.0, next_beat - time.monotonic()))
            if time.monotonic() - awake > 2 * self._heartbeat:
                self._excuse_silence()
            awake = time.monotonic()
            for key, events in found:
                if key.data is None:
                    os.read(self._waking, 4096)
                elif events & selectors.EVENT_WRITE:
                    self._see_to(key.data, self._flush)
                elif key.fd == key.data.pidfd:
                    self._read_last(key.data)
                else:
                    self._see_to(key.data, self._read)
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self._heartbeat
                for slot in self.slots():
                    self._see_to(self._slots[slot], self._beat)
        self._selector.close()
        os.close(self._waking)

    def _see_to(self, child: Child, act: Callable[[Child], bool]) -> bool:
        """Do this for a slot that is still here: one `select` may tell of a slot and of its end,
        after which its file descriptors are another's. What goes wrong ends that slot alone."""
        if self._slots.get(child.id) is not child:
            return False
        try:
            return act(child)
        except ProtocolError as error:
            self._condemn(child, f"spoke no frames: {error}")
        except Exception as error:  # noqa: BLE001 - the other slots are to be served on
            child.note(traceback.format_exc())
            self._condemn(child, f"the engine failed on it: {error!r}")
        return False

    def _flush(self, child: Child) -> bool:
        with self._lock:
            child.flush()
        return bool(child.outgoing)

    def _excuse_silence(self) -> None:
        """This process itself was suspended, so nobody can be blamed for not being heard."""
        with self._lock:
            for child in self._slots.values():
                child.heard = time.monotonic()

    def _watch_writes(self) -> None:
        """Watch the pipes that still have something to take, and no others."""
        with self._lock:
            watched = self._selector.get_map()
            for child in self._slots.values():
                if child.outgoing and child.writes not in watched:
                    self._selector.register(child.writes, selectors.EVENT_WRITE, child)
                elif not child.outgoing and child.writes in watched:
                    self._selector.unregister(child.writes)

    def _read(self, child: Child) -> bool:
        """Take in a piece of what the slot said; whether there may be more."""
        try:
            data = os.read(child.reads, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            return self._bury(child)
        child.heard = time.monotonic()
        if not child.complaint:
            for frame in child.decoder.feed(data):
                self._take(child, frame)
        return True

    def _read_last(self, child: Child) -> bool:
        """The process is gone: take in all that it said, then bury it."""
        while self._see_to(child, self._read):
            continue
        return self._see_to(child, self._bury)

    def _take(self, child: Child, frame: Frame) -> None:
        if frame.type == "hello":
            spoken = frame.fields.get("protocol")
            if spoken != PROTOCOL:
                self._condemn(
                    child,
                    f"speaks protocol {spoken}, this runner {PROTOCOL}: "
                    "install the same benchfleet in the slot's interpreter",
                )
                return
            self._post(SlotReady(slot=child.id, hello=frame.fields))
        elif frame.type != "ping":
            self._post(to_event(child.id, frame))

    def _beat(self, child: Child) -> bool:
        now = time.monotonic()
        if child.process.poll() is not None:
            return self._read_last(child)
        if child.doomed_since is not None:
            if now - child.doomed_since > _LAST_GRACE:
                child.end_by_force()
        elif child.ending_since is not None and now - child.ending_since > _GRACE:
            child.end()
        elif now - child.heard > self._silence:
            self._condemn(child, f"silent for {now - child.heard:.0f} s")
        else:
            self._tell(child.id, encode("ping"))
        return True

    def _condemn(self, child: Child, why: str) -> None:
        child.complaint = child.complaint or why
        child.end()

    def _bury(self, child: Child) -> bool:
        """Let go of a slot, with whatever it left, and tell the runner, whatever happens."""
        code = None
        try:
            with self._lock:  # held throughout: nobody may find a slot whose channel is closed
                try:
                    watched = self._selector.get_map()
                    for handle in child.handles:
                        if handle in watched:
                            self._selector.unregister(handle)
                    code = child.bury()
                finally:
                    del self._slots[child.id]
        finally:
            self._post(
                SlotLost(
                    slot=child.id,
                    reason=child.complaint or _said(code),
                    expected=child.ending_since is not None and not child.complaint,
                    exit_code=code,
                )
            )
        return False


def _unstarted(error: OSError) -> str:
    remedy = _REMEDIES.get(error.errno or 0, "see what the system's own log says of it")
    where = f" ({error.filename})" if error.filename else ""
    return f"its process cannot be started: {error.strerror or error}{where}; {remedy}"


def _said(code: int | None) -> str:
    if code is None:
        return "its end was not seen"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"
