"""The one composition root: from devices and names to a running campaign."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any

from benchfleet import registry
from benchfleet.domain.attempt import CellRecord, RunnerId
from benchfleet.domain.budget import Budget, Spending
from benchfleet.domain.cell import Cell
from benchfleet.domain.resource import MemoryState
from benchfleet.engines.base import Engine
from benchfleet.environment import batch_job
from benchfleet.errors import LedgerFull
from benchfleet.fleet import Fleet, open_engine
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.spending import read_spending
from benchfleet.machines.devices import (
    cores,
    nvml_gpus,
)  # fmt: skip
from benchfleet.machines.free_memory import free_memory
from benchfleet.machines.provenance import provenance
from benchfleet.maintenance.rescore import Rescored, Rescorer
from benchfleet.placement_loader import load_placement, missing_data_of
from benchfleet.results.disk import make_folder
from benchfleet.results.stores.phase_lists import with_order
from benchfleet.results.transfer.download import download_results
from benchfleet.results.transfer.list_keeper import ListKeeper
from benchfleet.runner.attempt.heartbeat import LeaseHeartbeat
from benchfleet.runner.build import RunnerComponents
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.disk_guard import disk_space
from benchfleet.runner.events import (
    EventQueue,
    LeaseLost,
    LedgerChanged,
    ThreadFailed,
    ThreadWarning,
)
from benchfleet.runner.execution.retrying_ledger import RetryingLedger
from benchfleet.runner.loop import Runner
from benchfleet.runner.outage import Outage
from benchfleet.runner.progress import Observer
from benchfleet.runner.resources.local_host import LocalHost, this_host
from benchfleet.runner.result_storage import ResultStorage
from benchfleet.runner.run_end import RunEnd
from benchfleet.runner.scheduler.run_request import GateConfig, RunRequest
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study
from benchfleet.uploads import start_uploads

PUBLISHERS = 4  # threads that write results; a disk syncs for several threads at once


def run_cells(
    study: Study,
    cells: Sequence[Cell],
    fleet: Fleet,
    *,
    inbox: EventQueue,
    observer: Observer,
    options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
    serving: threading.Event | None = None,
) -> RunEnd:
    """Run the cells on these machines and return how it ended. `serving` is set once cells may
    run; before that a ledger whose server is away is waited for."""
    make_folder(study.layout.root)
    stop_waiting, serving = threading.Event(), serving or threading.Event()
    ledger = RetryingLedger(
        study.open_ledger(),
        post=inbox.post,
        ending=stop_waiting,
        serving=serving,
        outage=(outage := Outage()),
    )
    publishers = ThreadPoolExecutor(PUBLISHERS, thread_name_prefix="publisher")
    connected = contextlib.ExitStack()
    try:
        with contextlib.suppress(LedgerFull):
            study.record_campaign(ledger)
        cells = with_order(ledger, cells)
        uploads = start_uploads(study, ledger, inbox)
        # Lists and rentals retry by themselves, also when the run has ended.
        lists = connected.enter_context(_list_keeper(study, ledger.inside, inbox))
        runner = Runner(
            RunnerComponents(
                RunnerContext(
                    runner=RunnerId(os.urandom(16).hex()),
                    local_host=_local_host(study, fleet),
                    ledger=ledger,
                    heartbeat=LeaseHeartbeat(
                        ledger,
                        lambda lease: inbox.post(LeaseLost(lease=lease)),
                        lambda error: inbox.post(ThreadFailed(error=error)),
                        every=study.lease / 5,
                    ),
                    engine=open_engine(fleet, cells, inbox, connected, study.lease, ledger.inside),
                    inbox=inbox,
                    layout=study.layout,
                    random=random.random,
                ),
                RunRequest(
                    cells=cells,
                    policy=registry.load("policies", study.campaign.placement)(),
                    gate_config=_gate_config(study, cells, patient=options.patient),
                    placement=partial(
                        load_placement,
                        study.campaign,
                        ledger,
                        local_host=study.host if fleet.pool else "",
                        missing_data=missing_data_of(cells) if fleet.pool else {},
                    ),
                    endpoint_slots=study.campaign.machine.endpoint_slots,
                    budget=_budget(study, fleet),
                    options=options,
                ),
                ResultStorage(
                    disk_space=partial(disk_space, study.layout.root),
                    publish_all=uploads.publish_all,
                    background=publishers.submit,
                    fetch=partial(_fetch_results, study, ledger),
                    cache=study.result_cache(),
                ),
                observer=observer,
                stop_waiting=stop_waiting,
                serving=serving,
                outage=outage,
            )
        )
        ledger.listen(lambda: inbox.post(LedgerChanged()))
        end = runner.run()
        lists.stop(wait=not (end.interrupted or end.ledger_away))
        return uploads.finish(inbox, end)
    finally:
        connected.close()
        publishers.shutdown()
        ledger.close()


def _fetch_results(study: Study, ledger: Ledger, records: Sequence[CellRecord]) -> None:
    """Bring these results from the campaign's place, or from the ledger's, into its folder here, as
    far as they are there. A place that is away is asked again later."""
    stores = (study.result_store(), ledger.results_store())
    download_results(study.layout, records, [store for store in stores if store is not None])


def _budget(study: Study, fleet: Fleet) -> Budget | None:
    """The campaign's budget, with what earlier runs spent of it."""
    if study.campaign.budget is None:
        return None
    spending = fleet.rent.spending if fleet.rent else Spending()
    budget = replace(study.campaign.budget, spending=spending)
    count_spending(study, budget.spending)
    return budget


def count_spending(study: Study, spending: Spending) -> None:
    """Count what earlier runs spent in the currency of the campaign's budget: rentals by what they
    cost until now, and attempts on other machines."""
    budget = study.campaign.budget
    if budget is None:
        return

    currency, now = budget.currency, time.time()
    spent = study.query(lambda ledger: read_spending(ledger, currency, now), default=Spending())
    spending.attempts, spending.rentals = spent.attempts, spent.rentals


def _local_host(study: Study, fleet: Fleet) -> LocalHost:
    """This machine, for the runner."""
    return replace(
        this_host(host=study.host, folder=study.layout.own_id()),
        job=batch_job(os.environ),
        pool=fleet.pool,
        gpus=nvml_gpus,
        measure=_measure,
        provenance=_provenance(study),
    )


def _provenance(study: Study) -> Callable[[], Mapping[str, Any]]:
    """The provenance of this machine in results, looked up once."""
    return cache(partial(provenance, study.campaign.folder))


def _list_keeper(study: Study, ledger: Ledger, inbox: EventQueue) -> ListKeeper:
    """What keeps the lists of phases in the ledger's repository, where it has one."""
    return ListKeeper(
        ledger,
        study.campaign.name,
        notify=lambda message: inbox.post(ThreadWarning(message=message)),
    )


def _gate_config(study: Study, cells: Sequence[Cell], *, patient: bool) -> GateConfig:
    """What of the campaign's phases a run of these cells respects: nothing in a trial."""
    phases, matrix = study.campaign.phases, study.campaign.matrix
    if not any(cell.phase for cell in cells) and study.campaign.file is not None:
        return GateConfig()
    if study.campaign.file is None:
        return GateConfig(phases=phases, patient=patient)
    return GateConfig(
        phases=phases,
        cells=study.cells(),
        again=study.cells if matrix.has_variants else None,
        patient=patient,
        judge=study.host,
    )


def _measure(gpus: bool, tell: Callable[[Mapping[str, MemoryState]], None]) -> None:
    """Ask in a thread of its own, which a driver that hangs holds up alone."""
    work = threading.Thread(
        target=lambda: tell(free_memory(gpus=gpus)), name="headroom", daemon=True
    )
    work.start()


def rescore(study: Study, records: Sequence[CellRecord]) -> Iterator[Rescored]:
    """Score these cells again on this machine's CPU, and report each."""
    ledger = study.open_existing_ledger(writes=True) if records else None
    if ledger is None:
        return
    inbox = EventQueue()
    engine: Engine = registry.load("engines", "local")(inbox.post)
    try:
        context = RunnerContext(
            runner=RunnerId(os.urandom(16).hex()),
            local_host=LocalHost(provenance=_provenance(study)),
            ledger=ledger,
            heartbeat=LeaseHeartbeat(ledger, lambda lease: None, lambda error: None),
            engine=engine,
            inbox=inbox,
            layout=study.layout,
            random=random.random,
        )
        rescorer = Rescorer(context, threads=cores())
        names = {str(record.fingerprint) for record in records}
        whole = list(ledger.cells(fingerprints=names, with_cell=True))
        yield from rescorer.rescore(
            sorted(whole, key=lambda r: r.cell.model.python if r.cell else "")
        )
    finally:
        engine.shutdown()
        ledger.close()
