"""The components of a runner, built and wired to each other."""

from __future__ import annotations

import threading

from benchfleet.runner.commands.operator import OperatorCommands
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.event_feed import EventFeed
from benchfleet.runner.execution.attempt_recorder import AttemptRecorder
from benchfleet.runner.execution.lifecycle import AttemptLifecycle
from benchfleet.runner.execution.publisher import Publisher
from benchfleet.runner.execution.termination import Termination
from benchfleet.runner.host_lifecycle import HostLifecycle
from benchfleet.runner.outage import Outage
from benchfleet.runner.progress import Observer
from benchfleet.runner.recovery.run_start import RunStart
from benchfleet.runner.resources.autoscaler import Autoscaler
from benchfleet.runner.resources.hosts import Hosts
from benchfleet.runner.resources.slots import Slots
from benchfleet.runner.result_storage import ResultStorage
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.gates import Gates
from benchfleet.runner.scheduler.run_request import RunRequest
from benchfleet.runner.scheduler.scheduler import Scheduler
from benchfleet.runner.worker_time import WorkerTime


class RunnerComponents:
    """The components of one run, for its loop.

    Time comes from the event queue, so that the same loop runs against a simulated fleet.
    `serving` is set once slots may open, and `stop_waiting` when no component may wait any more.
    `outage` says for how long the ledger has been away.
    """

    def __init__(
        self,
        context: RunnerContext,
        request: RunRequest,
        storage: ResultStorage,
        *,
        observer: Observer,
        stop_waiting: threading.Event | None = None,
        serving: threading.Event | None = None,
        outage: Outage | None = None,
    ) -> None:
        self.context, self.request = context, request
        self.serving = serving or threading.Event()
        self.state = RunState(
            ledger=context.ledger,
            inbox=context.inbox,
            cells=request.cells,
            observer=observer,
            disk_space=storage.disk_space,
            budget=request.budget,
            stop_waiting=stop_waiting or threading.Event(),
        )
        self.start = RunStart(
            context, request, self.state, publish_all=storage.publish_all, cache=storage.cache
        )
        self.slots = Slots(context.runner[:8], context.engine, context.layout, self.state.progress)
        hosts, self.feed = Hosts(context.engine.hosts()), EventFeed(context.ledger)
        recorder = AttemptRecorder(context, storage)
        self.publisher = Publisher(recorder, inbox=context.inbox, background=storage.background)
        self.scheduler = Scheduler(
            context,
            request,
            feed=self.feed,
            slots=self.slots,
            hosts=hosts,
            begin=lambda slot, claim: self.lifecycle.begin(slot, claim),
            fetch=storage.fetch,
            was_split=lambda path, parts: self.state.notify("cell_split", cell=path, parts=parts),
        )
        self.devices = self.scheduler.devices
        self.gates = Gates(
            request.gate_config,
            ledger=context.ledger,
            cells=request.cells,
            state=self.state,
            scheduler=self.scheduler,
        )
        self.lifecycle = AttemptLifecycle(
            context,
            state=self.state,
            slots=self.slots,
            hosts=hosts,
            scheduler=self.scheduler,
            recorder=recorder,
            publisher=self.publisher,
            batch_job=request.options.batch_job,
        )
        self.feed.subscribe(self.lifecycle.cancellation.follow)
        self.feed.subscribe(context.heartbeat.follow)
        self.autoscaler = Autoscaler(
            inbox=context.inbox,
            state=self.state,
            slots=self.slots,
            pools=lambda: self.devices.pools,
            measure=context.local_host.measure,
        )
        self.host_lifecycle = HostLifecycle(
            context,
            state=self.state,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            lifecycle=self.lifecycle,
            autoscaler=self.autoscaler,
        )
        self.termination = Termination(
            inbox=context.inbox,
            engine=context.engine,
            state=self.state,
            slots=self.slots,
            lifecycle=self.lifecycle,
            scheduler=self.scheduler,
            batch_job=request.options.batch_job,
        )
        self.commands = OperatorCommands(
            context,
            state=self.state,
            slots=self.slots,
            hosts=hosts,
            devices=self.devices,
            lifecycle=self.lifecycle,
            termination=self.termination,
        )
        self.feed.subscribe(self.commands.follow)
        self.worker_time = WorkerTime(
            request.options,
            inbox=context.inbox,
            ledger=context.ledger,
            outage=outage or Outage(),
            state=self.state,
            slots=self.slots,
            scheduler=self.scheduler,
            gates=self.gates,
            termination=self.termination,
        )
