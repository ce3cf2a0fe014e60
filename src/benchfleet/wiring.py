"""The one composition root: from devices and names to a running campaign."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from benchfleet import registry
from benchfleet.bench import Bench, make_folder
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.machines.devices import chosen_devices, cores
from benchfleet.machines.provenance import provenance
from benchfleet.runner.inbox import Broken, Inbox, LeaseLost
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.loop import RunEnd, Runner
from benchfleet.runner.place import Pool
from benchfleet.runner.progress import Observer

WRITERS = 2  # threads that write and sync results; more would only wait for the same disk


def choose_pool(
    gpu_ids: Sequence[int] | None, cpu_slots: int | None, max_concurrent_runs: int | None
) -> Pool:
    """The devices of a run and how many slots share them. Raises DeviceError."""
    if cpu_slots is None and not gpu_ids:
        devices = chosen_devices(gpu_ids, None, cpu_default=max_concurrent_runs)
    else:
        devices = chosen_devices(gpu_ids, cpu_slots)
    slots = max_concurrent_runs or len(devices)
    if devices[0].kind == "cpu":
        devices = devices[:slots]
        slots = len(devices)
    return Pool(devices=devices, slots=slots, threads=max(1, cores() // slots))


def run_cells(
    bench: Bench,
    cells: Sequence[Cell],
    pool: Pool,
    *,
    inbox: Inbox,
    observer: Observer,
    random: Callable[[], float] = random.random,
) -> RunEnd:
    """Run the cells on this machine's pool and return how it ended."""
    make_folder(bench.layout.root)
    ledger = bench.ledger()
    background = ThreadPoolExecutor(WRITERS, thread_name_prefix="results")
    try:
        runner = Runner(
            runner=RunnerId(uuid.uuid4().hex),
            ledger=ledger,
            engine=registry.load("engines", "local")(inbox.post),
            inbox=inbox,
            layout=bench.layout,
            pool=pool,
            cells=cells,
            observer=observer,
            keeper=LeaseKeeper(
                ledger,
                lambda lease: inbox.post(LeaseLost(lease=lease)),
                lambda error: inbox.post(Broken(error=error)),
            ),
            provenance=cache(partial(provenance, bench.campaign.file.parent)),
            random=random,
            background=background.submit,
        )
        return runner.run()
    finally:
        background.shutdown()
        ledger.close()
