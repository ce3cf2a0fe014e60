"""The machines of a campaign as its ledger tells: runners, drained devices, rentals, reports."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import BY_HAND, RUNNER_KILLED, Event
from benchfleet.domain.rental import KINDS as RENTAL_KINDS
from benchfleet.domain.rental import RentalHistory
from benchfleet.domain.slots import (
    ADDED,
    ANSWERED,
    BEGAN,
    ENDED,
    REMOVED,
    REQUESTED,
    device_name,
    host_in,
)
from benchfleet.errors import BenchfleetError
from benchfleet.machines.probe.report import Capability, read
from benchfleet.orders.slots_history import SlotsHistory

FLEET_KINDS = frozenset({BEGAN, ENDED, REQUESTED, ANSWERED, ADDED, REMOVED, PROBED, *RENTAL_KINDS})
WORK_SPAN_S = 24 * 3600.0  # of which it is kept what each device did
MAX_KEPT_WORK = 5_000  # attempts


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt that ended: where it was, and when. Seconds since the epoch."""

    host: str
    device: str  # without the host
    begin: float
    loaded: float  # when its model was loaded
    end: float
    hourly: float  # what an hour of the slot costs; 0: no price is known
    currency: str


@dataclass(frozen=True, kw_only=True)
class MachineReport:
    """What a machine said of itself when it was probed."""

    capability: Capability
    version: str  # of its benchfleet; "" where it does not say
    at: float  # seconds since the epoch by the ledger's clock


class Fleet:
    """The runners, devices, rentals and reports in the ledger's events."""

    def __init__(self) -> None:
        self.runners: dict[str, Event] = {}  # those that began, by runner id
        self.ended: dict[str, float] = {}  # runner id → when it ended
        self.signs: dict[str, float] = {}  # runner id → when it last claimed or ended a cell
        self.lost: set[str] = set()  # runners that lost a cell, and gave no sign since
        self.killed: set[str] = set()  # runners that their machine saw to be gone
        self.drained: dict[str, set[str]] = {}  # runner id → devices that were ordered to be let go
        self.excluded: set[tuple[str, str]] = set()  # of them, by runner and device, for good
        # What later runs leave out: machine ("" where the device names its host) and device.
        self.left_out: set[tuple[str, str]] = set()
        self.orders = SlotsHistory()
        self.reports: dict[str, MachineReport] = {}  # by host
        self.hosts: set[str] = set()  # on which attempts ended
        self.rentals = RentalHistory()
        self.work: deque[Work] = deque(maxlen=MAX_KEPT_WORK)
        self.read_since = time.time()  # of what ended before it nothing was read

    @property
    def work_since(self) -> float:
        """From when on all attempts are kept, in seconds since the epoch."""
        if len(self.work) == MAX_KEPT_WORK:
            return max(self.read_since, self.work[0].end)
        return self.read_since

    def take(self, event: Event) -> None:
        """Follow an event of `FLEET_KINDS`."""
        runner = str(event.data.get("runner", ""))
        self.orders.take(event)
        if event.kind == BEGAN:
            self.runners[runner] = event
        elif event.kind == ENDED:
            self.ended[runner] = event.at
        elif event.kind == REQUESTED:
            self._take_command(runner, event.data)
        elif event.kind in (ADDED, REMOVED):
            self._take_change(event)
        elif event.kind == PROBED:
            self._take_report(event)
        elif event.kind in RENTAL_KINDS:
            self.rentals.take(event)

    def take_sign(self, event: Event) -> None:
        """Follow whether a runner is alive, by what it does with cells. One that waits for cells
        reports nothing, so only the cells that it lost say that it may be gone."""
        runner, reason = str(event.data.get("runner", "")), str(event.data.get("reason", ""))
        if event.kind in ("claimed", "finished"):
            self.signs[runner] = event.at
            self.lost.discard(runner)
        elif event.kind == "released" and reason == RUNNER_KILLED:
            self.killed.add(runner)
        elif event.kind == "reaped" or (event.kind == "released" and reason.startswith(BY_HAND)):
            self.lost.add(runner)

    def take_work(self, event: Event) -> None:
        """Keep what an attempt did that ended within the last day."""
        if event.kind != "finished" or event.data["outcome"].get("taken_from"):
            return  # what a result cache had ran on a machine that is none of this campaign
        self.hosts.add(str(event.data["outcome"].get("host", "")))
        if event.at < time.time() - WORK_SPAN_S:
            return
        outcome = Outcome.from_dict(event.data["outcome"])
        if outcome.host:
            begin = event.at - sum(outcome.seconds.values())
            loaded = begin + outcome.seconds.get("load", 0.0)
            used, device = outcome.usage, host_in(outcome.device)[1]
            hourly = (used.price_per_hour if used else None) or 0.0
            currency = used.currency if used else ""
            self.work.append(Work(outcome.host, device, begin, loaded, event.at, hourly, currency))

    def _take_command(self, runner: str, data: Mapping[str, Any]) -> None:
        names, action = set(map(str, data.get("devices", ()))), data.get("action")
        devices = self.drained.setdefault(runner, set())
        if action in ("drain", "remove"):
            devices.update(names)
            if action == "remove":
                self.excluded.update((runner, name) for name in names)
        elif action == "add":
            devices.difference_update(names)
            self.excluded.difference_update((runner, name) for name in names)

    def _take_change(self, event: Event) -> None:
        machine = str(event.data.get("machine", ""))
        for name in map(str, event.data.get("devices", ())):
            with contextlib.suppress(ValueError):
                device_name(name)  # as runners read it
                change = self.left_out.add if event.kind == REMOVED else self.left_out.discard
                change((machine, name))

    def _take_report(self, event: Event) -> None:
        document = event.data.get("report")
        try:
            capability = read(document, "the ledger")
        except BenchfleetError:
            return  # `status` names it
        metadata = document.get("metadata") if isinstance(document, dict) else None
        version = str(metadata.get("benchfleet", "")) if isinstance(metadata, dict) else ""
        report = MachineReport(capability=capability, version=version, at=event.at)
        self.reports[capability.hostname] = report
