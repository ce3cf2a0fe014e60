"""The parts of a runner, made and tied to each other."""

from __future__ import annotations

import threading

from benchfleet.runner.commands.operator import Orders
from benchfleet.runner.context import Means
from benchfleet.runner.event_feed import News
from benchfleet.runner.execution.lifecycle import Cells
from benchfleet.runner.execution.outcomes import Attempts
from benchfleet.runner.execution.publisher import Publisher
from benchfleet.runner.execution.termination import Stopping
from benchfleet.runner.host_lifecycle import Machines
from benchfleet.runner.progress import Observer
from benchfleet.runner.resources.autoscaler import Autoscaler
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.result_storage import Disk
from benchfleet.runner.run_state import Course
from benchfleet.runner.scheduler.gate_watcher import Gatekeeper
from benchfleet.runner.scheduler.run_request import Agenda
from benchfleet.runner.scheduler.scheduler import Filler
from benchfleet.runner.worker_time import Hours


class Parts:
    """What sees to parts of one run, for its loop.

    Time comes from the inbox of the means, so that the same loop runs against a simulated fleet.
    `serving` is set once there may be slots to serve, and `ending` when nothing is to be waited for
    any more.
    """

    def __init__(
        self,
        means: Means,
        agenda: Agenda,
        disk: Disk,
        *,
        observer: Observer,
        ending: threading.Event | None = None,
        serving: threading.Event | None = None,
    ) -> None:
        self.means, self.agenda, self.publish_all = means, agenda, disk.publish_all
        self.serving = serving or threading.Event()
        self.course = Course(
            ledger=means.ledger,
            inbox=means.inbox,
            cells=agenda.cells,
            observer=observer,
            room=disk.room,
            ending=ending or threading.Event(),
        )
        self.slots = Slots(means.runner[:8], means.engine, means.layout, self.course.progress)
        hosts, self.news = Hosts(means.engine.hosts()), News(means.ledger)
        attempts = Attempts(means, disk)
        self.publisher = Publisher(attempts, inbox=means.inbox, background=disk.background)
        self.filler = Filler(
            means,
            agenda,
            news=self.news,
            slots=self.slots,
            hosts=hosts,
            begin=lambda slot, claim: self.cells.begin(slot, claim),
        )
        self.devices = self.filler.devices
        self.gates = Gatekeeper(
            agenda.gating,
            ledger=means.ledger,
            cells=agenda.cells,
            course=self.course,
            filler=self.filler,
        )
        self.cells = Cells(
            means,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            filler=self.filler,
            attempts=attempts,
            publisher=self.publisher,
        )
        self.news.tell(self.cells.cancelling.follow)
        self.autoscaler = Autoscaler(
            inbox=means.inbox,
            course=self.course,
            slots=self.slots,
            pools=lambda: self.devices.pools,
            measure=means.here.measure,
        )
        self.machines = Machines(
            means,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            cells=self.cells,
            autoscaler=self.autoscaler,
        )
        self.orders = Orders(
            means,
            course=self.course,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            cells=self.cells,
        )
        self.news.tell(self.orders.follow)
        self.stopping = Stopping(
            inbox=means.inbox,
            engine=means.engine,
            course=self.course,
            slots=self.slots,
            cells=self.cells,
            filler=self.filler,
        )
        self.hours = Hours(
            agenda.shift,
            inbox=means.inbox,
            course=self.course,
            slots=self.slots,
            filler=self.filler,
            gates=self.gates,
            stopping=self.stopping,
        )
