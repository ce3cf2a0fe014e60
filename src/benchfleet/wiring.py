"""The one composition root: from devices and names to a running campaign."""

from __future__ import annotations

import contextlib
import os
import random
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from benchfleet import registry
from benchfleet.bench import Bench, make_folder
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.domain.host import Host
from benchfleet.engines.base import Engine
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


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The machines of a run: this one's pool, if it takes part, and others that ssh reaches."""

    pool: Pool | None = None
    hosts: Sequence[Host] = ()
    known_hosts: Path = Path(os.devnull)  # the file that keeps their keys


def run_cells(
    bench: Bench,
    cells: Sequence[Cell],
    fleet: Fleet,
    *,
    inbox: Inbox,
    observer: Observer,
    random: Callable[[], float] = random.random,
) -> RunEnd:
    """Run the cells on these machines and return how it ended."""
    make_folder(bench.layout.root)
    ledger = bench.ledger()
    background = ThreadPoolExecutor(WRITERS, thread_name_prefix="results")
    connected = contextlib.ExitStack()
    try:
        runner = Runner(
            runner=RunnerId(uuid.uuid4().hex),
            ledger=ledger,
            engine=_engine(fleet, inbox, connected),
            inbox=inbox,
            layout=bench.layout,
            pools=[fleet.pool] if fleet.pool else [],
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
        connected.close()
        background.shutdown()
        ledger.close()


def _engine(fleet: Fleet, inbox: Inbox, connected: contextlib.ExitStack) -> Engine:
    """What opens slots on all of these machines, for as long as `connected` is open."""
    here: Engine = registry.load("engines", "local")(inbox.post)
    if not fleet.hosts:
        return here
    from benchfleet.engines.openssh import connections
    from benchfleet.engines.ssh import SshEngine
    from benchfleet.engines.together import Together
    from benchfleet.machines.shares import examined
    from benchfleet.machines.wheel import interpreter_of

    hosts = [replace(host, python=interpreter_of(host)) for host in fleet.hosts]
    ssh = connected.enter_context(connections(fleet.known_hosts))
    return Together(here, SshEngine(inbox.post, hosts=hosts, ssh=ssh, examine=examined))
