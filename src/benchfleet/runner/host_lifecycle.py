"""The lifecycle of slots and hosts, and what failures say of a host."""

from __future__ import annotations

import contextlib
from typing import Any

from benchfleet.domain.attempt import Claim
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Kind, Stage
from benchfleet.engines.base import HostAwaited, HostLost, HostReady, SlotLost, SlotQuiet, SlotReady
from benchfleet.errors import LedgerAway, LedgerFull
from benchfleet.results.read import log_tail
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.attempt.exit_cause import find_exit_cause
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.execution.lifecycle import AttemptLifecycle
from benchfleet.runner.execution.unplaceable import end_unplaceable
from benchfleet.runner.resources.autoscaler import Autoscaler
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.hosts import HOST_TIMEOUT_S, Hosts
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState


class HostLifecycle:
    """Follows the hosts and slots of one runner as they come and go."""

    def __init__(
        self,
        context: RunnerContext,
        *,
        state: RunState,
        slots: Slots,
        hosts: Hosts,
        devices: Devices,
        lifecycle: AttemptLifecycle,
        autoscaler: Autoscaler,
    ) -> None:
        self._context, self._state = context, state
        self._inbox, self._ledger = context.inbox, context.ledger
        self._slots, self._hosts, self._devices = slots, hosts, devices
        self._lifecycle, self._autoscaler = lifecycle, autoscaler
        self._alone_since: float | None = None  # cells wait for a host, and nothing else goes on

    def look(self) -> None:
        """See whether what was left alone can be used again, and whether any machine is left."""
        now = self._inbox.now()
        self._devices.take_back(now)
        self._show_awaited()
        self._end_unplaceable()
        if not self._waits_for_hosts() or self._hosts.is_wait_bounded:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > HOST_TIMEOUT_S:
            self._state.broken = f"no machine came within {HOST_TIMEOUT_S:g} s ({self._hosts.why})"

    def _show_awaited(self) -> None:
        """Show which hosts are away and may come, and since when."""
        progress, now = self._state.progress, self._inbox.now()
        progress.awaited = {host: progress.awaited.get(host, now) for host in self._hosts.expected}

    def _waits_for_hosts(self) -> bool:
        """Whether cells are left for hosts that are away alone, and no slot does anything."""
        if not self._hosts.expecting or self._state.short_of_disk:
            return False
        if not self._slots.all_idle:
            return False
        with contextlib.suppress(LedgerAway):
            return any(self._ledger.cells(states=["pending"], fingerprints=self._devices.for_hosts))
        return False  # nobody can say

    def host_ready(self, event: HostReady) -> None:
        """Slots can be opened there."""
        if self._hosts.is_present(event.host):
            return
        doubted = self._hosts.is_doubted(event.host)
        self._hosts.ready(event)
        self._show_awaited()
        self._devices.add(
            Pool(
                devices=event.devices,
                slots=event.slots,
                threads=event.threads,
                begin=event.begin,
                price=event.price,
                rented=event.rented,
            )
        )
        self._autoscaler.look()  # before slots are opened: there may be fewer than there are seats
        if not doubted:
            labels = ", ".join(device.label for device in event.devices)
            self._state.notify("host_ready", host=event.host, slots=event.slots, devices=labels)
            self._record("host_ready", host=event.host, slots=event.slots, devices=labels)

    def host_lost(self, event: HostLost) -> None:
        """It cannot be used now; each of its slots was lost before."""
        was_used = self._hosts.is_present(event.host) or self._hosts.is_doubted(event.host)
        self._hosts.lost(event)
        self._show_awaited()
        self._devices.remove(event.host, for_good=event.removed)
        if was_used or event.hopeless or not event.removed:  # the end of others is no news
            self._state.notify(
                "host_lost",
                host=event.host,
                message=event.reason,
                hopeless=event.hopeless or event.removed,
            )
            self._record("host_lost", host=event.host, reason=event.reason, hopeless=event.hopeless)
        self._end_unplaceable()
        if not self._devices.able:
            self._state.broken = f"no machine can be used ({self._hosts.why})"

    def _end_unplaceable(self) -> None:
        """End the cells that only a machine that was given up could take."""
        if not self._hosts.has_abandoned:
            return  # what follows walks all cells
        with contextlib.suppress(LedgerAway):  # the next look tries again
            end_unplaceable(self._context, self._devices, self._state, self._hosts.failure_of)

    def host_awaited(self, event: HostAwaited) -> None:
        """Cells may wait for hosts that are still to join."""
        self._hosts.await_more(event)
        self._show_awaited()
        self._state.notify("waiting", message=f"host {event.host}: {event.reason}")
        self._devices.remove(event.host)  # there is none yet; what may run is sorted out again

    def _record(self, kind: str, **data: Any) -> None:
        """Record an event of a host in the history."""
        with contextlib.suppress(LedgerFull, LedgerAway):  # the history does not wait
            self._ledger.record(Event(kind=kind, data=data))

    def _doubt(self, host: str, reason: str) -> None:
        """Open no slot there until its engine reports again."""
        self._hosts.doubt(host, reason)
        self._devices.remove(host)

    def slot_ready(self, slot: Slot, event: SlotReady) -> None:
        """It takes orders; first the one that it was opened for."""
        self._slots.ready(slot)
        slot.load_key = event.loaded
        self._slots.reindex(slot)
        self._devices.started_well(slot)
        self._state.notify("slot_ready", slot=slot.id, hello=event.hello)
        claim, slot.waiting_claim = slot.waiting_claim, None
        if claim is not None:
            if self._state.ends:
                self._lifecycle.release_claim(claim, "its runner ends")
            else:
                self._lifecycle.begin(slot, claim)

    def slot_quiet(self, slot: Slot, event: SlotQuiet) -> None:
        """Warn of a slot that sends nothing; its engine ends it if it stays silent."""
        cell = slot.attempt.claim.path if slot.attempt else ""
        on = f" on {slot.spec.host}" if slot.spec.host else ""
        why = (
            f"slot {slot.id}{on} sends nothing; it is killed after {event.ended_at:g} s of silence"
        )
        self._state.notify("warning", cell=cell, message=why)

    def slot_lost(self, slot: Slot, event: SlotLost) -> None:
        """Its devices are free; what it ran ends with a reason."""
        self._slots.closed(slot)
        if event.host_lost:
            self._doubt(slot.spec.host, event.reason)
        if not (event.expected or event.busy or event.trial):
            host = slot.spec.host
            self._state.notify("slot_lost", slot=slot.id, message=event.reason, host=host)
        why = f"its slot ended: {event.reason}"
        if event.trial:
            self._trial_failed(slot, event.trial)
        elif slot.attempt is not None:
            cause = find_exit_cause(event, log_tail(slot.attempt.folder.log, lines=200, most=2**15))
            self.handle_failure(slot, slot.attempt, slot.attempt.stage, cause.kind)
            self._lifecycle.fail(
                slot.attempt, slot.attempt.stage, cause.kind, cause.message, trace=cause.trace
            )
        elif slot.waiting_claim is not None and (self._state.ends):
            self._lifecycle.release_claim(slot.waiting_claim, "its runner ends")
        elif slot.waiting_claim is not None and not self._hosts.is_present(slot.spec.host):
            self._lifecycle.release_claim(slot.waiting_claim, why)
        elif slot.waiting_claim is not None and slot.ready:
            self._slots.open(
                slot.spec.devices, slot.width, alone=slot.alone, waiting_claim=slot.waiting_claim
            )
        elif event.busy:
            if slot.waiting_claim is not None:
                self._lifecycle.release_claim(slot.waiting_claim, why)
            if self._devices.set_aside(slot, self._inbox.now(), gpus=event.unfit):
                message = f"{slot.display.devices} is left alone, and looked at again now and then"
                self._state.notify("warning", message=f"{message}: {event.reason}")
        elif slot.waiting_claim is not None:
            self._fail_unstarted(slot, slot.waiting_claim, why)
        elif event.host_lost:
            pass  # nothing is wrong with its devices
        elif not slot.ready and not event.expected and self._devices.started_badly(slot):
            self._left_out(slot, f"slots do not start ({event.reason}); see {slot.spec.log}")

    def handle_failure(self, slot: Slot, attempt: Attempt, stage: Stage, kind: Kind) -> None:
        """Act on what a failure says about the host."""
        if kind == "oom":
            self._autoscaler.ran_out(slot, attempt.claim.lease.fingerprint)
        elif kind == "gpu_fault" and self._devices.faulted(slot, attempt.claim.cell):
            self._left_out(slot, "a GPU failed there under two cells in a row")
        elif kind == "disk_full" and not slot.spec.host:
            if stage == "collect":
                self._state.disk_refused()
            else:  # of some disk here; that of the results tells itself
                self._state.check_disk()
        elif kind == "disk_full" or (stage == "provision" and kind == "error"):
            if self._devices.set_aside(slot, self._inbox.now(), failed=True):
                why = f"what the cell needs could not be sent to {slot.spec.host}"
                if kind == "disk_full":
                    why = f"the disk of {slot.spec.host} is full"
                then = f"{slot.display.devices} is left alone, and looked at again now and then"
                self._state.notify("warning", message=f"{why}: {then}")
            if slot.idle:
                self._slots.retire(slot)

    def _trial_failed(self, slot: Slot, why: str) -> None:
        """Use its devices no more; where none is left, it is the model. No cell was begun."""
        if slot.waiting_claim is not None:
            self._lifecycle.release_claim(slot.waiting_claim, f"its trial failed: {why}")
        self._devices.failed_trial(slot)
        self._left_out(slot, f"its trial failed: {why}")
        if not self._devices.able:
            self._state.broken = f"the trial failed on every device: {why}; fix the model or "
            self._state.broken += "leave it out (--exclude), or run without --trial-load"

    def _left_out(self, slot: Slot, why: str) -> None:
        """Say that a slot's devices are used no more."""
        self._state.notify("warning", message=f"{slot.display.devices} is left out: {why}")
        if not self._devices.able:
            self._state.broken = why

    def _fail_unstarted(self, slot: Slot, claim: Claim, why: str) -> None:
        """The interpreter that a cell asks for does not start."""
        attempt = self._lifecycle.make(slot, claim)
        if attempt is not None:
            self._lifecycle.fail(
                attempt, "setup", "slot_lost", f"no slot with {slot.spec.python!r}: {why}"
            )
