"""Slots on this machine: one process each, one thread for all their channels."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchfleet.engines.base import Order, SlotEvent, SlotId, SlotLost, SlotReady, SlotSpec
from benchfleet.engines.frames import PROTOCOL, Decoder, Frame, encode
from benchfleet.engines.processes import end_tree
from benchfleet.engines.wire import to_event
from benchfleet.errors import ProtocolError

_LAUNCHER = str(Path(__file__).parents[1] / "slot" / "launch.py")
_PACKAGE_PATH = str(Path(__file__).parents[2])
_PIECE = 2**20  # bytes read at once
_GRACE = 10.0  # seconds that a slot told to close is given


class _Slot:
    """A slot's process and the two ends of its channel."""

    def __init__(self, slot: SlotId, process: subprocess.Popen[bytes]) -> None:
        self.id = slot
        self.process = process
        self.reads = _pipe(process.stdout)
        self.writes = _pipe(process.stdin)
        self.pidfd = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
        self.decoder = Decoder()
        self.outgoing = bytearray()
        self.heard = time.monotonic()
        self.ending_since: float | None = None  # told to close, or killed
        self.complaint = ""  # why the engine itself ended it


class LocalEngine:
    """Opens slots as child processes; see `benchfleet.engines.base` for the contract.

    `post` is called from the engine's own thread with every event. Slots end with the thread
    that opened them, so open them from one that lives as long as the run.
    """

    def __init__(
        self,
        post: Callable[[SlotEvent], None],
        *,
        heartbeat: float = 5.0,
        silence: float = 60.0,
    ) -> None:
        self._post = post
        self._heartbeat, self._silence = heartbeat, silence
        self._slots: dict[SlotId, _Slot] = {}
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
        Path(spec.log).parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", _LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        slot = _Slot(spec.slot, process)
        with self._lock:
            self._slots[spec.slot] = slot
            self._selector.register(slot.reads, selectors.EVENT_READ, slot)
            if slot.pidfd is not None:
                self._selector.register(slot.pidfd, selectors.EVENT_READ, slot)
        gpus = [str(device.index) for device in spec.devices if device.kind == "gpu"]
        self._send(
            slot,
            encode(
                "open",
                slot=spec.slot,
                gpus=",".join(gpus),
                threads=spec.threads,
                log=spec.log,
                python=spec.python,
                path=_PACKAGE_PATH if spec.python else "",
                parent=os.getpid(),
                heartbeat=self._heartbeat,
                silence=self._silence,
            ),
        )

    def run(self, slot: SlotId, order: Order) -> None:
        attached = (order.recorded,) if order.recorded else ()
        cell = order.cell.to_dict()
        self._tell(slot, encode("run", attached, attempt=order.attempt, cell=cell, log=order.log))

    def stop(self, slot: SlotId, attempt: str) -> None:
        self._tell(slot, encode("stop", attempt=attempt))

    def close(self, slot: SlotId) -> None:
        with self._lock:
            if found := self._slots.get(slot):
                found.ending_since = found.ending_since or time.monotonic()
        self._tell(slot, encode("close"))

    def kill(self, slot: SlotId) -> None:
        with self._lock:
            found = self._slots.get(slot)
            if found is not None:
                found.ending_since = found.ending_since or time.monotonic()
                end_tree(found.process.pid, slot)

    def shutdown(self) -> None:
        for slot in self.slots():
            self.close(slot)
        deadline = time.monotonic() + _GRACE
        while self.slots() and time.monotonic() < deadline:
            time.sleep(0.005)
        for slot in self.slots():
            self.kill(slot)
        while self.slots():
            time.sleep(0.005)
        if not self._ended:
            self._ended = True
            self._wake()
            self._thread.join()
            os.close(self._woken)

    def _tell(self, slot: SlotId, data: bytes) -> None:
        with self._lock:
            if found := self._slots.get(slot):
                self._send(found, data)

    def _send(self, slot: _Slot, data: bytes) -> None:
        """Write what the pipe takes now; the engine's thread writes the rest."""
        with self._lock:
            slot.outgoing += data
            self._flush(slot)
            if slot.outgoing:
                self._wake()

    def _flush(self, slot: _Slot) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while slot.outgoing:
                del slot.outgoing[: os.write(slot.writes, slot.outgoing)]

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._woken, b"!")

    def _serve(self) -> None:
        next_beat = time.monotonic() + self._heartbeat
        while not self._ended:
            self._watch_writes()
            for key, events in self._selector.select(max(0.0, next_beat - time.monotonic())):
                if key.data is None:
                    os.read(self._waking, 4096)
                elif events & selectors.EVENT_WRITE:
                    with self._lock:
                        self._flush(key.data)
                else:
                    self._read(key.data, exited=key.fd == key.data.pidfd)
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self._heartbeat
                self._beat()
        self._selector.close()
        os.close(self._waking)

    def _watch_writes(self) -> None:
        """Watch the pipes that still have something to take, and no others."""
        with self._lock:
            watched = self._selector.get_map()
            for slot in self._slots.values():
                if slot.outgoing and slot.writes not in watched:
                    self._selector.register(slot.writes, selectors.EVENT_WRITE, slot)
                elif not slot.outgoing and slot.writes in watched:
                    self._selector.unregister(slot.writes)

    def _read(self, slot: _Slot, *, exited: bool) -> None:
        """Take in what the slot said; where its process is gone, all of it, then bury it."""
        if slot.id not in self._slots:
            return
        closed = False
        while not closed:
            try:
                data = os.read(slot.reads, _PIECE)
            except BlockingIOError:
                break
            closed = not data
            slot.heard = time.monotonic()
            try:
                for frame in slot.decoder.feed(data):
                    self._take(slot, frame)
            except ProtocolError as error:
                self._condemn(slot, f"spoke no frames: {error}")
                break
            if not exited:
                break
        if exited or closed:
            self._bury(slot)

    def _take(self, slot: _Slot, frame: Frame) -> None:
        if frame.type == "hello":
            spoken = frame.fields.get("protocol")
            if spoken != PROTOCOL:
                self._condemn(
                    slot,
                    f"speaks protocol {spoken}, this runner {PROTOCOL}: "
                    "install the same benchfleet in the slot's interpreter",
                )
                return
            self._post(SlotReady(slot=slot.id, hello=frame.fields))
        elif frame.type != "ping":
            self._post(to_event(slot.id, frame))

    def _beat(self) -> None:
        now = time.monotonic()
        with self._lock:
            for slot in list(self._slots.values()):
                if slot.ending_since is not None and now - slot.ending_since > _GRACE:
                    end_tree(slot.process.pid, slot.id)
                elif now - slot.heard > self._silence:
                    self._condemn(slot, f"silent for {now - slot.heard:.0f} s")
                else:
                    self._send(slot, encode("ping"))
                if slot.pidfd is None and slot.process.poll() is not None:
                    self._bury(slot)

    def _condemn(self, slot: _Slot, why: str) -> None:
        slot.complaint = slot.complaint or why
        end_tree(slot.process.pid, slot.id)

    def _bury(self, slot: _Slot) -> None:
        """The process is gone: end what it left, let go of the channel, tell the runner."""
        with self._lock:
            if self._slots.get(slot.id) is not slot:
                return
            end_tree(slot.process.pid, slot.id)
            code = slot.process.wait()
            watched = self._selector.get_map()
            for handle in (slot.reads, slot.writes, slot.pidfd):
                if handle is not None and handle in watched:
                    self._selector.unregister(handle)
            if slot.pidfd is not None:
                os.close(slot.pidfd)
            for stream in (slot.process.stdin, slot.process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()  # type: ignore[union-attr]
            del self._slots[slot.id]
        self._post(
            SlotLost(
                slot=slot.id,
                reason=slot.complaint or _said(code),
                expected=slot.ending_since is not None and not slot.complaint,
                exit_code=code,
            )
        )


def _pipe(stream: object) -> int:
    handle: int = stream.fileno()  # type: ignore[attr-defined]
    os.set_blocking(handle, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, 2**20)
    return handle


def _said(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"
