"""What engines share whose slots are child processes, and how their channels are served."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from benchfleet.domain.failure import Failure
from benchfleet.engines.base import (
    EngineEvent,
    Failed,
    Order,
    SlotId,
    SlotLost,
    SlotQuiet,
    SlotSpec,
)
from benchfleet.engines.child import Child
from benchfleet.engines.ends import ending, lost, unstarted
from benchfleet.engines.frames import encode, whole_lines
from benchfleet.engines.hearing import Hearing
from benchfleet.engines.io_loop import IoLoop
from benchfleet.errors import ProtocolError

_MOMENT = 0.005  # seconds between two looks at what is left
_TICKS = 4  # looks at each slot in one heartbeat
_START = 60.0  # seconds that a slot may take to say hello, at least
_RECORDED = 8 * 2**20  # bytes of earlier samples in one frame
_GRACE = 10.0  # seconds that a slot told to close is given
_LAST_GRACE = 15.0  # seconds that its supervisor is given to end all


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
        self._lock = threading.RLock()
        self._hearing = Hearing(post, self._condemn, self._stream_ended)
        self._checked = time.monotonic()  # when its slots were checked last
        self._loop = IoLoop(every=heartbeat / _TICKS, check=self._check_all)
        self._loop.start()

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
                hearing, see_to = self._hearing, partial(self._see_to, child)
                self._loop.add_reader(child.reads, partial(see_to, hearing.read))
                self._loop.add_reader(child.prints, partial(see_to, hearing.read_prints))
                if child.pidfd is not None:
                    self._loop.add_reader(child.pidfd, partial(self._read_last, child))
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
        self._wait_for_all(_GRACE)
        for slot in self.slots():
            self.kill(slot)
        self._wait_for_all()
        for child in list(self._slots.values()):
            self._bury(child)
        self._loop.end()

    def _wait_for_all(self, most: float = inf) -> None:
        """Wait until no slot is left, so many seconds at most."""
        until = time.monotonic() + most
        while self.slots() and self._loop.alive and time.monotonic() < until:
            time.sleep(_MOMENT)

    # A turn

    def _tell(self, slot: SlotId, data: bytes) -> None:
        """Write what the pipe takes now; the rest is written in the turns that follow."""
        with self._lock:
            if (child := self._slots.get(slot)) and child.writes >= 0:
                child.outgoing += data
                child.flush()
                if child.outgoing:
                    self._loop.add_writer(child.writes, partial(self._see_to, child, self._flush))

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
            if not child.outgoing:
                self._loop.remove(child.writes)
        return bool(child.outgoing)

    def _stream_ended(self, child: Child, handle: int) -> None:
        with self._lock:
            child.listening.discard(handle)
            self._loop.remove(handle)
        if not child.listening:
            self._bury(child)

    def _read_last(self, child: Child) -> bool:
        """The process is gone: take in all that it said, then bury it."""
        for read in (self._hearing.read, self._hearing.read_prints):
            while self._see_to(child, read):
                continue
        return self._see_to(child, self._bury)

    def _check_all(self, now: float) -> None:
        """See which slots are silent. Where this process itself was suspended, or busy, nobody can
        be blamed for not being heard."""
        with self._lock:
            slots = list(self._slots.values())
            if now - self._checked > 2 * self._heartbeat:
                for child in slots:
                    child.heard = child.overseen = now
            self._checked = now
        for child in slots:
            self._see_to(child, self._beat)

    def _beat(self, child: Child) -> bool:
        now = self._checked  # where all slept since, the next check excuses it
        if child.process.poll() is not None:
            return self._read_last(child)
        self._hearing.pronounce(child, now)
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
        return self._checked - max(child.heard, child.overseen) > self._noticed

    def _condemn(self, child: Child, why: str) -> None:
        child.complaint = child.complaint or why
        self._end(child)

    def _end(self, child: Child) -> None:
        with self._lock:
            self._loop.remove(child.writes)
            child.end()

    def _bury(self, child: Child) -> bool:
        """Let go of a slot, with whatever it left, and tell the runner, whatever happens."""
        code = None
        try:
            with self._lock:  # held throughout: nobody may find a slot whose channel is closed
                try:
                    for handle in child.handles:
                        self._loop.remove(handle)
                    code = child.bury()
                finally:
                    del self._slots[child.id]
        finally:
            self._hearing.pronounce(child)
            self._post(self._epitaph(child, code))
            self._buried(child)
        return False
