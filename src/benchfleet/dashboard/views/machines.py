"""The machines of a campaign: what they are, their runners by host, and what they did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchfleet.dashboard.fleet import MachineReport
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.slots import Slot, host_of, reports_of, silence_of, slots_of
from benchfleet.dashboard.views.strips import Strip, strips
from benchfleet.domain.rental import Rental
from benchfleet.domain.slots import device_names, host_in
from benchfleet.domain.state import FINAL_STATES
from benchfleet.domain.worker_progress import WorkerProgress, clock_text
from benchfleet.orders.slots_history import SlotsOrder

SILENT_AFTER_S = 90.0  # seconds without a sign of a runner without cells
MAX_STRIPS = 16  # of one machine
Life = Literal["running", "silent", "ended", "rented"]
_STATUS: dict[Life, str] = {
    "running": "Running",
    "silent": "Silent",
    "ended": "Ended",
    "rented": "Starting",
}
_URGENCY: dict[Life, int] = {"silent": 0, "rented": 1, "running": 1, "ended": 2}


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A process that runs cells, as far as it uses one machine."""

    id: str
    began_at: float
    ended_at: float | None
    life: Life
    silent: float
    job: str
    at_home: bool  # its process is on this machine; else it uses it from another one
    slots: Sequence[Slot]  # on this machine
    elsewhere: Sequence[str]  # other machines that it uses
    more_slots: int
    drained: Sequence[str]  # devices of this machine that were ordered to be let go
    removed: Collection[str]  # of them, those that later runs leave out too
    clock_ahead: float  # seconds, of its own machine's clock; 0 where it agrees with ours
    orders: Sequence[SlotsOrder]  # the last ones to it, the newest first; on its own machine

    @property
    def drainable(self) -> list[str]:
        """The devices that it can be asked to let go, as orders name them."""
        names = [name for slot in self.slots for name in named(slot, self.at_home)]
        return [name for name in dict.fromkeys(names) if name not in self.drained]

    @property
    def without_slot(self) -> list[tuple[str, str]]:
        """The devices that it has let go, without their host, each with its state as
        `benchfleet slots` names it."""
        used = {name for slot in self.slots for name in named(slot, self.at_home)}
        return [
            (host_in(name)[1], "removed" if name in self.removed else "drained")
            for name in self.drained
            if name not in used
        ]

    def slots_on(self, devices: Collection[str]) -> list[Slot]:
        """Its slots that use one of these devices."""
        return [one for one in self.slots if not set(devices).isdisjoint(named(one, self.at_home))]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A host with its runners, the newest first."""

    name: str
    life: Life
    silent: float
    runners: Sequence[Runner]
    slots: Sequence[Slot]  # of the runners that have not ended
    running: int  # cells
    done: int
    failed: int
    last_hour: int  # cells that ended within an hour
    phase: str  # of its running cells, else of the last one that ended
    report: MachineReport | None  # None where nobody has probed it
    rental: Rental | None  # None for one that is not rented
    strips: Sequence[Strip]
    left_out: Sequence[tuple[str, str]]  # by later runs: the machine of these, and the device
    hourly: float  # what its slots cost an hour; 0: no price is known
    currency: str
    clock_ahead: float  # seconds by which its clock differs from the server's; 0 where they agree

    @property
    def clock(self) -> str:
        """What its clock is; "" where it and the server's agree."""
        other = "the clock of the dashboard"
        return clock_text(self.clock_ahead, other) if self.clock_ahead else ""

    @property
    def status(self) -> str:
        """In a word, as `/api/status` has it."""
        return _STATUS[self.life]

    @property
    def drainable(self) -> bool:
        """Whether a device of it can be let go."""
        return any(one.drainable for one in self.runners if one.life != "ended")

    @property
    def resumable(self) -> bool:
        alive = (one for one in self.runners if one.life != "ended")
        return bool(self.left_out) or any(one.drained for one in alive)


def named(slot: Slot, at_home: bool) -> list[str]:
    """The devices of a slot as orders to its runner name them; none of an endpoint."""
    label = slot.devices if at_home else f"{slot.host}/{slot.devices}"
    try:
        return [str(name) for name in device_names(label)]
    except ValueError:
        return []


def machines(model: ReadModel) -> list[Machine]:
    """The machines that run cells, ran some or are rented, those that need attention first; the
    lock of the model is held."""
    slots = slots_of(model)
    runners = _runners(model, slots)
    rentals = {one.host: one for one in model.fleet.rentals.rentals.values() if one.state != "void"}
    drawn = strips(model.fleet.work, slots, model.fleet.work_since)
    totals = _Totals(model)
    prices, left_out = _prices(model), _left_out(model)
    rented = (name for name, one in rentals.items() if one.is_open)
    every = []
    for name in dict.fromkeys((*runners, *totals.done, *left_out, *rented)):
        own = sorted(runners.get(name, ()), key=lambda one: -one.began_at)
        alive = [one for one in own if one.life != "ended"]
        own_slots = [slot for one in alive for slot in one.slots]
        rows = {slot.row.fingerprint: slot.row for slot in own_slots if slot.row is not None}
        rental = rentals.get(name)
        lives = {one.life for one in alive}
        life: Life = "running" if "running" in lives else "silent" if lives else "ended"
        if life == "ended" and rental is not None and rental.is_open:
            life = "rented"
        last = totals.last.get(name)
        hourly, currency = prices.get(name, (0.0, ""))
        if rental is not None:
            hourly, currency = rental.hourly / 1e6, rental.currency
        every.append(
            Machine(
                name=name or "unknown host",
                life=life,
                silent=min(one.silent for one in alive) if life == "silent" else 0.0,
                runners=own,
                slots=own_slots,
                running=len(rows),
                done=totals.done[name],
                failed=totals.failed[name],
                last_hour=totals.last_hour[name],
                phase=next((row.phase for row in rows.values()), last.phase if last else ""),
                report=model.fleet.reports.get(name),
                rental=rental,
                strips=drawn.get(name, ()),
                left_out=left_out.get(name, ()),
                hourly=hourly,
                currency=currency,
                clock_ahead=next((one.clock_ahead for one in alive if one.clock_ahead), 0.0),
            )
        )
    return sorted(every, key=lambda one: (_URGENCY[one.life], one.name))


def _runners(model: ReadModel, slots: Sequence[Slot]) -> dict[str, list[Runner]]:
    """The runners by each machine that they use."""
    reports = {report.runner: report for report in reports_of(model)}
    runners: dict[str, list[Runner]] = {}
    for name, began in model.fleet.runners.items():
        own = [slot for slot in slots if slot.runner == name]
        report, home = reports.get(name), host_of(began)
        ended = model.fleet.ended.get(name)
        silent, has_cell = silence_of(own), any(slot.row for slot in own)
        age = _last_sign_age(model, name, report)
        if not has_cell and (name in model.fleet.lost or not own) and age > SILENT_AFTER_S:
            silent = age
        is_over = ended is not None or (name in model.fleet.killed and not has_cell)
        life: Life = "ended" if is_over else "silent" if silent else "running"
        drained = model.fleet.drained.get(name, ())
        hosts = {home, *(slot.host for slot in own), *(host_in(one)[0] or home for one in drained)}
        for host in sorted(hosts):
            runner = Runner(
                id=name,
                began_at=began.at,
                ended_at=ended,
                life=life,
                silent=silent,
                job=str(began.data.get("job", "")),
                at_home=host == home,
                slots=[slot for slot in own if slot.host == host],
                elsewhere=sorted(hosts - {host, home}),
                more_slots=report.more_slots if report and host == home else 0,
                drained=sorted(one for one in drained if (host_in(one)[0] or home) == host),
                removed={device for runner, device in model.fleet.excluded if runner == name},
                clock_ahead=report.clock_ahead(time.time()) if report and host == home else 0.0,
                orders=model.fleet.orders.of(name) if host == home else (),
            )
            runners.setdefault(host, []).append(runner)
    return runners


def _last_sign_age(model: ReadModel, runner: str, report: WorkerProgress | None) -> float:
    """Seconds since a runner began, claimed or ended a cell, or reported, until the ledger was read
    last."""
    sign = model.fleet.signs.get(runner, model.fleet.runners[runner].at)
    age = max(0.0, time.time() - sign)
    return (min(age, report.age) if report else age) - model.freshness.unknown_seconds


class _Totals:
    """The cells that ended on each host."""

    def __init__(self, model: ReadModel) -> None:
        now = time.time()
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.last_hour: Counter[str] = Counter()
        self.last: dict[str, Row] = {}
        for row in model.rows:
            if row.host and row.state in FINAL_STATES:
                self.done[row.host] += row.state == "success"
                self.failed[row.host] += row.state in ("failed", "partial")
                self.last_hour[row.host] += row.changed_at > now - 3600
                if row.host not in self.last or row.changed_at >= self.last[row.host].changed_at:
                    self.last[row.host] = row


def _left_out(model: ReadModel) -> Mapping[str, Sequence[tuple[str, str]]]:
    """What later runs leave out, by host."""
    began = model.fleet.runners.values()
    homes = {str(one.data.get("machine", "")): host_of(one) for one in began}
    by_host: dict[str, list[tuple[str, str]]] = {}
    for machine, device in sorted(model.fleet.left_out):
        host = host_in(device)[0] or homes.get(machine, machine)
        by_host.setdefault(host, []).append((machine, device))
    return by_host


def _prices(model: ReadModel) -> Mapping[str, tuple[float, str]]:
    """What an hour of each host's slots costs, by the newest attempt of each slot."""
    newest = {(one.host, one.device): one for one in model.fleet.work if one.hourly}
    prices: dict[str, tuple[float, str]] = {}
    for (host, _), one in newest.items():
        before = prices.get(host, (0.0, one.currency))
        if before[1] == one.currency:
            prices[host] = before[0] + one.hourly, one.currency
    return prices
