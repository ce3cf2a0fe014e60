"""What engines share whose slots run on hosts that can be lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchfleet.engines.base import AttemptRequest, EngineEvent, SlotId, SlotLost
from benchfleet.engines.child import Child
from benchfleet.engines.exit_reasons import exit_reason, slot_lost
from benchfleet.engines.process_engine import ProcessEngine

_POLL_S = 0.01


class RemoteEngine(ProcessEngine):
    """Runs slots on hosts, behind channels that may break; see `benchfleet.engines.base`.

    A slot's supervisor reports how the slot ended. Where nobody did, the host is in doubt
    (`_doubt`): the subclass asks it, ends there the slots of `_take_unseen`, and calls
    `_lose_slots` if it does not answer.
    """

    def __init__(
        self,
        post: Callable[[EngineEvent], None],
        *,
        heartbeat: float,
        silence: float,
        orphan_timeout: float,
    ) -> None:
        self._host_of: dict[SlotId, str] = {}
        self._unseen: dict[str, list[SlotId]] = {}  # slots whose end nobody saw, by host
        super().__init__(post, heartbeat=heartbeat, silence=silence, orphan_timeout=orphan_timeout)

    # What a subclass says

    def _doubt(self, host: str) -> None:
        """Ask the host whether it is still there; `HostReady` or `HostLost` follows."""
        raise NotImplementedError

    def _unseen_exit(self, child: Child, code: int | None) -> SlotLost:
        """The last event of a slot whose supervisor did not report its end."""
        raise NotImplementedError

    # For subclasses

    def _lose_slots(self, host: str, why: str) -> None:
        """End all slots on a host that is lost, and wait until their last events are posted."""
        with self._lock:
            for child in self._slots_on(host):
                child.host_lost = child.wait_status is None and child.kind is None
                self._terminate(child, f"its host was lost: {why}")
                child.kill()
        while host in list(self._host_of.values()):
            time.sleep(_POLL_S)

    def _take_unseen(self, host: str) -> list[SlotId]:
        """The slots whose end nobody saw since the last call, and those that are silent though
        their host answers, which are ended."""
        with self._lock:
            unseen = self._unseen.pop(host, [])
            for child in self._slots_on(host):
                if child.probed:
                    child.probed = False
                    if self._is_unsupervised(child):
                        child.note_cause("stuck silent, its supervisor too, on a host that answers")
                        self._terminate(child)
                        unseen.append(child.id)
        return unseen

    # Of a process engine

    def _request_fields(self, child: Child, request: AttemptRequest) -> dict[str, Any]:
        child.requests += 1
        child.attempt, child.output_file = request.attempt, Path(request.log)
        scratch = f"{child.scratch}/{child.requests}"
        return {"cell": request.cell.to_dict(), "log": "", "scratch": scratch}

    def _exit_event(self, child: Child, code: int | None) -> SlotLost:
        """Its supervisor reported how it ended, or nobody knows."""
        if child.orphaned:
            why = f"its connection broke ({child.reason})"
            return slot_lost(child, why, None, host_lost=True)
        if child.host_lost:  # its supervisor may still report how it ended
            return slot_lost(child, child.reason, None, host_lost=True)
        if child.wait_status is not None:
            code = os.waitstatus_to_exitcode(child.wait_status)
            return slot_lost(child, child.reason or exit_reason(code), code)
        return self._unseen_exit(child, code)

    def _check_silent(self, child: Child) -> None:
        """Ask its host, since it may be the connection that is silent; see `_take_unseen`."""
        if child.greeted and not child.probed:
            child.probed = True
            self._doubt(self._host_of[child.id])

    def _exited(self, child: Child) -> None:
        host = self._host_of.pop(child.id)
        if child.wait_status is None:
            self._unseen.setdefault(host, []).append(child.id)
        if child.wait_status is None or child.orphaned:
            self._doubt(host)

    def _slots_on(self, host: str) -> list[Child]:
        return [child for slot, child in self._slots.items() if self._host_of.get(slot) == host]
