"""What engines share whose slots are child processes: one thread that serves all their channels."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    Done,
    EngineEvent,
    Failed,
    Order,
    SlotId,
    SlotLost,
    SlotQuiet,
    SlotReady,
    SlotSpec,
    Stopped,
)
from benchfleet.engines.child import Child
from benchfleet.engines.ends import ending, lost, refusal, unstarted
from benchfleet.engines.frames import Frame, encode, whole_lines
from benchfleet.engines.marks import Mark
from benchfleet.engines.wire import to_event, to_unfitness
from benchfleet.errors import ProtocolError

_PIECE = 2**20  # bytes read at once
_TICKS = 4  # looks at each slot in one heartbeat
_START = 60.0  # seconds that a slot may take to say hello, at least
_RECORDED = 8 * 2**20  # bytes of earlier samples in one frame
_GRACE = 10.0  # seconds that a slot told to close is given
_LAST_GRACE = 15.0  # seconds that its supervisor is given to end all
_HELD = 10.0  # seconds that a verdict waits for the end of what was printed before it


class ChannelEngine:
    """Serves slots as child processes; see `benchfleet.engines.base` for the contract.

    A kind of engine says how a slot is started (`_start`), what its order looks like there
    (`_order`), and what its end means (`_epitaph`). `post` is called from the engine's own
    thread, and from the caller's where a slot or an order cannot even begin.

    Twice in a heartbeat a slot's supervisor says that it looks after it, and whether it computes:
    it ends one that was stopped. One that computes is never silent, whatever holds Python's lock
    in it. One that neither says a word nor computes is told of within two heartbeats, and ended
    after `silence` seconds; where of its supervisor nothing is heard either, it is looked at
    (`_miss`). A slot that hears nothing for `patience` seconds ends itself.
    """

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        heartbeat: float,
        silence: float,
        patience: float,
    ) -> None:
        self._post = post
        self._heartbeat, self._silence, self._patience = heartbeat, silence, patience
        self._noticed = (2 - 1 / _TICKS) * heartbeat  # at the last look within two heartbeats
        self._slots: dict[SlotId, Child] = {}
        self._blocked: set[Child] = set()  # whose pipes have something to take
        self._lock = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = os.pipe()
        for end in (self._waking, self._woken):
            os.set_blocking(end, False)
        self._selector.register(self._waking, selectors.EVENT_READ, None)
        self._ended = False
        self._awake = time.monotonic()  # when this turn began
        self._thread = threading.Thread(target=self._serve, name="slots", daemon=True)
        self._thread.start()

    # What a kind of engine says

    def _start(self, spec: SlotSpec) -> tuple[Child, dict[str, Any]]:
        """The slot's process, and what its first frame says besides. Raises OSError."""
        raise NotImplementedError

    def _order(self, child: Child, order: Order) -> dict[str, Any]:
        """The order's frame as the slot is to have it."""
        raise NotImplementedError

    def _epitaph(self, child: Child, code: int | None) -> SlotLost:
        """How the slot ended, from its process's exit code; None where that was not seen."""
        return lost(child, child.complaint or ending(code), code)

    def _miss(self, child: Child) -> None:
        """Neither of the slot nor of its supervisor anything was heard for two heartbeats: end it
        where it can be seen that nothing will be."""

    def _buried(self, child: Child) -> None:
        """What else is to be done once its end was told."""

    # The contract

    def slots(self) -> Sequence[SlotId]:
        with self._lock:
            return list(self._slots)

    def hosts(self) -> Sequence[str]:
        return ()

    def open(self, spec: SlotSpec) -> None:
        try:
            child, more = self._start(spec)
        except OSError as error:
            self._post(SlotLost(slot=spec.slot, reason=unstarted(error)))
            return
        gpus = [str(device.index) for device in spec.devices if device.kind == "gpu"]
        opening = encode(
            "open",
            slot=spec.slot,
            gpus=",".join(gpus),
            threads=spec.threads,
            heartbeat=self._heartbeat,
            silence=self._patience,
            **more,
        )
        with self._lock:
            self._slots[spec.slot] = child
            try:
                for handle in (*child.listening, child.pidfd):
                    if handle is not None:
                        self._selector.register(handle, selectors.EVENT_READ, child)
            except OSError as error:
                child.complaint = unstarted(error)
                self._bury(child)
            else:
                self._tell(spec.slot, opening)

    def run(self, slot: SlotId, order: Order) -> None:
        """Hand the order over; one too large for a frame fails at once."""
        with self._lock:
            child = self._slots.get(slot)
        if child is None:
            return  # its end is being told
        attempt = order.attempt
        try:
            for piece in whole_lines(order.recorded, _RECORDED):
                self._tell(slot, encode("recorded", (piece,), attempt=attempt))
            how = {"batch_size": order.batch_size, "rescore": order.rescore, "trial": order.trial}
            fields: dict[str, Any] = {"attempt": attempt, **how, **self._order(child, order)}
            self._tell(slot, encode("run", **fields))
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
                self._end(child)

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

    # The thread that serves them all

    def _tell(self, slot: SlotId, data: bytes) -> None:
        """Write what the pipe takes now; the engine's thread writes the rest."""
        with self._lock:
            if (child := self._slots.get(slot)) and child.writes >= 0:
                child.outgoing += data
                child.flush()
                if child.outgoing:
                    self._blocked.add(child)
                    self._wake()

    def _wake(self) -> None:
        # It is awake already, or has seen that all is over and is gone.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._woken, b"!")

    def _serve(self) -> None:
        tick = self._heartbeat / _TICKS
        next_beat = time.monotonic() + tick
        while not self._ended:
            self._watch_writes()
            found = self._selector.select(max(0.0, next_beat - time.monotonic()))
            before, self._awake = self._awake, time.monotonic()
            if self._awake - before > 2 * self._heartbeat:
                self._excuse_silence()
            for key, events in found:
                if key.data is None:
                    os.read(self._waking, 4096)
                elif events & selectors.EVENT_WRITE:
                    self._see_to(key.data, self._flush)
                elif key.fd == key.data.pidfd:
                    self._read_last(key.data)
                elif key.fd == key.data.prints:
                    self._see_to(key.data, self._read_prints)
                else:
                    self._see_to(key.data, self._read)
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + tick
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
            child.deaf = True
            early = child.far and not child.greeted
            hint = "; a login script there must print nothing" if early else ""
            self._condemn(child, f"spoke no frames: {error}{hint}")
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
                child.heard = child.overseen = self._awake

    def _watch_writes(self) -> None:
        """Watch the pipes that still have something to take, and no others."""
        if not self._blocked:  # as nearly always; whoever adds to them wakes this thread
            return
        with self._lock:
            watched = self._selector.get_map()
            for child in list(self._blocked):
                if self._slots.get(child.id) is not child or child.writes < 0:
                    self._blocked.discard(child)
                elif child.outgoing and child.writes not in watched:
                    self._selector.register(child.writes, selectors.EVENT_WRITE, child)
                elif not child.outgoing:
                    self._blocked.discard(child)
                    if child.writes in watched:
                        self._selector.unregister(child.writes)

    def _read(self, child: Child) -> bool:
        """Take in a piece of what the slot said; whether there may be more."""
        data = self._piece(child, child.reads)
        if data:
            child.hear()
        if data and not child.deaf:
            for frame in child.decoder.feed(data):
                self._take(child, frame)
        return bool(data)

    def _read_prints(self, child: Child) -> bool:
        """Take in a piece of what its supervisor said and a far slot printed; whether there may
        be more."""
        data = self._piece(child, child.prints)
        for mark in child.print(data):
            self._take_mark(child, mark)
        return bool(data)

    def _piece(self, child: Child, handle: int) -> bytes:
        """What one of its streams has now; the slot is buried when the last of them ended."""
        if handle not in child.listening:
            return b""
        try:
            data = os.read(handle, _PIECE)
        except BlockingIOError:
            return b""
        if data:
            return data
        with self._lock:
            child.listening.discard(handle)
            self._selector.unregister(handle)
        if not child.listening:
            self._bury(child)
        return b""

    def _read_last(self, child: Child) -> bool:
        """The process is gone: take in all that it said, then bury it."""
        for read in (self._read, self._read_prints):
            while self._see_to(child, read):
                continue
        return self._see_to(child, self._bury)

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
                    self._pronounce(child)
            else:
                self._post(event)

    def _take_mark(self, child: Child, mark: Mark) -> None:
        if mark.word in ("computes", "waits"):
            child.overseen = time.monotonic()
            if mark.word == "computes":
                child.computed = child.overseen
        elif mark.word == "end" and mark.value == child.attempt:
            self._pronounce(child)
        elif mark.word == "alone":
            child.alone = True
        elif mark.word == "ended":
            status, _, cause = mark.value.partition(" ")
            child.ended = int(status) if status.isdigit() else child.ended
            child.take_cause(cause)

    def _pronounce(self, child: Child) -> None:
        verdict, child.verdict = child.verdict, None
        if verdict is not None:
            self._post(verdict)

    def _beat(self, child: Child) -> bool:
        now = self._awake  # where all slept since, nobody is silent before the next turn excused it
        if child.process.poll() is not None:
            return self._read_last(child)
        if child.verdict is not None and now - child.verdict_since > _HELD:
            self._pronounce(child)
        if child.doomed_since is not None:
            if now - child.doomed_since > _LAST_GRACE:
                child.end_by_force()
        elif child.ending_since is not None and now - child.ending_since > _GRACE:
            self._end(child)
        elif (silent := now - max(child.heard, child.computed)) > self._bearable(child):
            self._condemn(child, f"silent for {silent:.0f} s")
        else:
            if self._is_missing(child):
                self._miss(child)
            if child.greeted and not child.quiet and silent > self._noticed:
                child.quiet = True
                self._post(SlotQuiet(slot=child.id, ended_at=self._silence))
            if now - child.pinged >= self._heartbeat:
                child.pinged = now
                self._tell(child.id, encode("ping"))
        return True

    def _bearable(self, child: Child) -> float:
        """Seconds that it may be silent."""
        return self._silence if child.greeted else max(self._silence, _START)

    def _is_missing(self, child: Child) -> bool:
        """Whether neither it nor its supervisor was heard for two heartbeats."""
        return self._awake - max(child.heard, child.overseen) > self._noticed

    def _condemn(self, child: Child, why: str) -> None:
        child.complaint = child.complaint or why
        self._end(child)

    def _end(self, child: Child) -> None:
        with self._lock:
            if child.writes >= 0 and child.writes in self._selector.get_map():
                self._selector.unregister(child.writes)
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
            self._pronounce(child)
            self._post(self._epitaph(child, code))
            self._buried(child)
        return False
