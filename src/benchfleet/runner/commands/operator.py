"""Operator commands: devices are added, drained and removed during a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.domain.resource import Device
from benchfleet.domain.slots import (
    ADDED,
    ENDED,
    FREED,
    REMOVED,
    REQUESTED,
    Answer,
    DeviceName,
    SlotsCommand,
    command_from,
    device_name,
    name_of,
    parse_command,
)
from benchfleet.errors import DeviceError, LedgerAway, LedgerError, LedgerFull
from benchfleet.runner.commands.device_names import DeviceNames
from benchfleet.runner.commands.signal_file import SignalFile
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.execution.lifecycle import AttemptLifecycle
from benchfleet.runner.execution.termination import Termination
from benchfleet.runner.resources.devices import Devices
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.run_state import RunState
from benchfleet.runner.worker_options import STOP_GRACE_S


class OperatorCommands:
    """Takes commands from the ledger and the signal file, executes them and answers.

    Cells wait for a drained device until a command adds it again. A removed device is no part of
    this run and of later ones on this machine until it is added.
    """

    def __init__(
        self,
        context: RunnerContext,
        *,
        state: RunState,
        slots: Slots,
        hosts: Hosts,
        devices: Devices,
        lifecycle: AttemptLifecycle,
        termination: Termination,
    ) -> None:
        self._runner, self._ledger = context.runner, context.ledger
        self._inbox, self._local_host, layout = context.inbox, context.local_host, context.layout
        self._state, self._slots, self._devices, self._lifecycle = state, slots, devices, lifecycle
        self._termination = termination
        self._device_names = DeviceNames(devices, hosts, self._local_host.gpus)
        self._file = SignalFile(layout.orders, layout.slot_log(f"{self._runner[:8]}-orders"))
        self._began = False
        self._requests: list[Event] = []  # since the last look
        self._removed_before: set[DeviceName] = set()  # by earlier runs; no machine has them yet
        self._leaving: set[Device] = set()  # until no slot is on them
        self._awaited = False  # a notice was sent that cells wait for drained devices

    def begin(self) -> None:
        """Record this runner in the history, and leave out devices removed before."""
        events = self._ledger.events(kinds=[ADDED, REMOVED])
        self._removed_before.update(removed(events, self._local_host.machine))
        self.leave_out_removed()
        self._ledger.record(self._local_host.began(self._runner))
        self._began = True

    def leave_out_removed(self) -> None:
        """Leave out the devices removed before, once their machine is here."""
        known_devices = self._device_names.known_devices
        for name in sorted(self._removed_before & known_devices.keys()):
            self._removed_before.discard(name)
            self._devices.withdraw(known_devices[name], for_good=True)
            self._device_names.removed.add(known_devices[name])
            back = f"`benchfleet slots add {name}` brings it back"
            self._state.notify("warning", message=f"{name} is left out: it was removed; {back}")
        if self._device_names.removed and not self._devices.able:
            self._state.broken = "every device of this run was removed by `benchfleet slots`"

    def end(self) -> None:
        """Record the end of this runner."""
        if self._began:
            with contextlib.suppress(LedgerError):
                self._ledger.record(Event(kind=ENDED, data={"runner": self._runner}))

    def follow(self, events: Sequence[Event]) -> None:
        """Collect the commands to this runner for the next `look`."""
        self._requests += (
            e for e in events if e.kind == REQUESTED and e.data.get("runner") == self._runner
        )

    def look(self) -> None:
        """Execute the commands since the last call, and follow devices that become free."""
        for number, line in enumerate(self._lines(), 1):
            try:
                command = parse_command(line)
            except ValueError as error:
                self._state.notify("warning", message=f"slots.txt, line {number}: {error}")
                continue
            if command is not None:
                for refused in self._execute(command).refused:
                    self._state.notify("warning", message=f"slots.txt, line {number}: {refused}")
        requests, self._requests = self._requests, []
        for event in requests:
            with contextlib.suppress(ValueError):  # a newer benchfleet asks for what is not yet
                self._append(self._execute(command_from(event)).event())
        self._see_freed()
        self._see_whether_cells_wait()

    def _lines(self) -> list[str]:
        try:
            return self._file.take()
        except OSError as error:
            self._state.notify("warning", message=f"slots.txt cannot be read: {error}")
            return []

    def _execute(self, command: SlotsCommand) -> Answer:
        done, refused = [], []
        for name in dict.fromkeys(command.devices):
            try:
                done.append(self._do(command, name))
            except DeviceError as error:
                refused.append(str(error))
        for message in done:
            self._state.notify("slots_changed", message=message)
        slots = self._device_names.states(self._slots, self._inbox.now())
        return Answer(
            runner=self._runner,
            request=command.request,
            done=tuple(done),
            refused=tuple(refused),
            slots=tuple(slots),
        )

    def _do(self, command: SlotsCommand, name: DeviceName) -> str:
        if self._state.ends:
            raise DeviceError(f"{name}: this run is ending")
        if command.action == "add":
            return self._add(name)
        return self._withdraw(name, for_good=command.action == "remove", now=command.now)

    def _add(self, name: DeviceName) -> str:
        device, was = self._device_names.to_add(name)
        self._devices.grow(device)
        self._leaving.discard(device)
        self._awaited = False
        if device in self._device_names.removed or name in self._removed_before:
            self._device_names.removed.discard(device)
            self._removed_before.discard(name)
            self._record(ADDED, name)
        was = f"it was {was}, and" if was else "it"
        return f"{name} is added; {was} is looked at when a cell is to run there"

    def _withdraw(self, name: DeviceName, *, for_good: bool, now: bool) -> str:
        device = self._device_names.named(name)
        done = "removed" if for_good else "drained"
        already = device in self._device_names.removed or (
            not for_good and device in self._devices.quarantine.drained
        )
        if for_good and not already:
            self._device_names.removed.add(device)
            self._record(REMOVED, name)
        on_it = self._slots.on([device])
        for slot in on_it:
            if slot.waiting_claim is not None:
                self._lifecycle.release_claim(slot.waiting_claim, f"{name} is {done}")
                slot.waiting_claim = None
        self._devices.withdraw(device, for_good=for_good or device in self._device_names.removed)
        running = [slot for slot in on_it if slot.attempt is not None]
        for slot in running if now else ():
            if (attempt := slot.attempt) is not None and not attempt.cancelled:
                self._termination.stop(slot, attempt, f"{name} is {done}", grace=STOP_GRACE_S)
        self._leaving.add(device)
        if not on_it:
            return f"{name} is {done}{' already' if already else ''}; no slot is on it"
        if not running:
            return f"{name} is {done}; it is free when its slot has ended"
        cells = " and ".join(slot.display.cell for slot in running if slot.display.cell)
        if now:
            return f"{name} is {done}; its cells stop after the sample at hand"
        return f"{name} is {done}; it is free when {cells} has ended"

    def _see_freed(self) -> None:
        """Report devices that no process of this run uses any more."""
        if not self._leaving:
            return
        in_use = {device for slot in self._slots for device in slot.spec.devices}
        for device in sorted(self._leaving - in_use, key=name_of):
            self._leaving.discard(device)
            name = name_of(device)
            self._state.notify(
                "slots_changed", message=f"{name} is free: no slot is on it any more"
            )
            self._record(FREED, name)

    def _see_whether_cells_wait(self) -> None:
        """Say once that nothing goes on until somebody adds a device."""
        drained = self._devices.quarantine.drained
        if not drained or self._awaited or self._state.ends:
            return
        if any(slot.attempt is not None or not slot.ready for slot in self._slots):
            return
        among = self._devices.waits_for_drained()
        try:
            waiting = sum(1 for _ in self._ledger.cells(states=["pending"], fingerprints=among))
        except LedgerAway:
            return
        if waiting:
            self._awaited = True
            names = " ".join(str(name) for name in sorted(map(name_of, drained)))
            self._state.notify(
                "warning",
                message=f"{counted(waiting, 'cell', 'wait')} for slots: `benchfleet slots add "
                f"{names}` gives back what was drained; Ctrl-C ends the run",
            )

    def _record(self, kind: str, name: DeviceName) -> None:
        """Record a change of a device in the history."""
        machine = "" if name.host else self._local_host.machine
        data = {"runner": self._runner, "machine": machine, "devices": [str(name)]}
        self._append(Event(kind=kind, data=data))

    def _append(self, event: Event) -> None:
        with contextlib.suppress(LedgerFull, LedgerAway):  # the history does not wait
            self._ledger.record(event)


def removed(events: Iterable[Event], machine: str) -> list[DeviceName]:
    """The devices that runners on this machine are to leave out, by what was asked so far."""
    removed_names: dict[str, None] = {}
    for event in events:
        if event.kind in (ADDED, REMOVED) and event.data.get("machine") in ("", machine):
            for name in event.data.get("devices", ()):
                removed_names.pop(name, None)
                if event.kind == REMOVED:
                    removed_names[name] = None
    return [device_name(name) for name in removed_names]
