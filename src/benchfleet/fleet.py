"""The machines of a run, and the engine that opens slots on them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchfleet import registry
from benchfleet.benchmarks.base import loads_model
from benchfleet.campaign.base import Machine
from benchfleet.domain.cell import Cell
from benchfleet.domain.engine_choice import EngineChoice
from benchfleet.domain.host import AUTO, Host
from benchfleet.domain.resource import Device, GpuChecks
from benchfleet.engines.base import Engine, Post
from benchfleet.engines.plugin import EngineOptions
from benchfleet.errors import DeviceError
from benchfleet.ledger.base import DEFAULT_LEASE_S, Ledger
from benchfleet.machines.devices import DEFAULT_CPU_SLOTS, MAX_SLOTS_PER_GPU, cores, select_devices
from benchfleet.machines.host_capacity import capacity_from_facts
from benchfleet.rentals.request import RentRequest
from benchfleet.runner.events import EventQueue, Interrupted
from benchfleet.runner.resources.shapes import Pool

LOCAL_ENGINE = "local"  # for the slots of this machine, if no other is chosen


def _devices(machine: Machine) -> tuple[Device, ...]:
    most = machine.max_concurrent_runs
    try:
        if machine.cpu_slots == AUTO:
            return select_devices(machine.gpus, most or cores())
        if machine.cpu_slots is None and not machine.gpus:
            return select_devices(machine.gpus, None, cpu_default=most)
        return select_devices(machine.gpus, machine.cpu_slots)
    except DeviceError as error:
        if not (machine.gpus and machine.gpus_origin):
            raise
        raise DeviceError(f"{machine.gpus_origin}: {_without_option(error)}") from None


def gpus_problem(machine: Machine) -> str:
    """What is wrong with the GPUs that a campaign file names, on this machine; ``""`` if all are
    here."""
    try:
        select_devices(machine.gpus, None)
    except DeviceError as error:
        return _without_option(error)
    return ""


def _without_option(error: DeviceError) -> str:
    """The message for one who named the devices in a campaign file."""
    return str(error).replace("leave --gpus out", "remove it")


def choose_pool(machine: Machine) -> Pool:
    """The devices of a run and how many slots share them. Raises DeviceError."""
    most, per_gpu = machine.max_concurrent_runs, machine.slots_per_gpu
    devices = _devices(machine)
    begin = 0
    if devices[0].kind == "cpu":
        devices = devices[:most]
        slots = len(devices)
        begin = min(DEFAULT_CPU_SLOTS, slots) if machine.cpu_slots == AUTO else 0
    elif per_gpu is not None:
        slots = (per_gpu or MAX_SLOTS_PER_GPU) * len(devices)
        slots, begin = min(slots, most or slots), 1 if per_gpu == AUTO else 0
    else:
        slots = most or len(devices)
    return Pool(
        devices=devices,
        slots=slots,
        threads=max(1, cores() // slots),
        begin=begin,
        price=machine.price,
    )


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The machines of a run: this one's pool, if it takes part, others that ssh reaches, and those
    of the engines that the user chose."""

    pool: Pool | None = None
    hosts: Sequence[Host] = ()
    known_hosts: Path = Path(os.devnull)  # the file that keeps their keys
    engines: Sequence[EngineChoice] = ()
    rent: RentRequest | None = None  # machines that may be rented
    checks: GpuChecks = field(default_factory=GpuChecks)  # of their GPUs
    named: bool = False  # this machine's GPUs were named one by one
    trial_load: bool = False  # a model is loaded and asked once on each device first


def open_engine(
    fleet: Fleet,
    cells: Sequence[Cell],
    inbox: EventQueue,
    connected: contextlib.ExitStack,
    lease: float,
    ledger: Ledger,
) -> Engine:
    """What opens slots on all of these machines, for as long as `connected` is open."""

    def interrupted() -> bool:
        return isinstance(inbox.take(0.02), Interrupted)

    if not fleet.trial_load:
        return _open_engines(fleet, inbox.post, connected, lease, ledger, interrupted)
    from benchfleet.engines.preload_check import PreloadCheckEngine

    trials = PreloadCheckEngine(inbox.post, [cell for cell in cells if loads_model(cell)])
    trials.inside = _open_engines(fleet, trials.handle, connected, lease, ledger, interrupted)
    return trials


def _open_engines(
    fleet: Fleet,
    post: Post,
    connected: contextlib.ExitStack,
    lease: float,
    ledger: Ledger,
    interrupted: Callable[[], bool],
) -> Engine:
    """One engine for all machines. Where leases are shorter than usual, a silent slot of this
    machine is ended sooner."""
    options = EngineOptions(
        silence=min(lease, DEFAULT_LEASE_S),
        checks=fleet.checks,
        named=fleet.named,
        examine=capacity_from_facts,
    )
    plugins = [(registry.load("engines", one.engine), one) for one in fleet.engines]
    remote: list[Engine] = [
        plugin.open_engine(post, replace(options, name=one.label, settings=one.settings))
        for plugin, one in plugins
        if plugin.remote
    ]
    if fleet.hosts:
        remote.append(_ssh_engine(fleet, post, connected))
    if fleet.rent is not None:
        from benchfleet.rentals.accounts import open_accounts
        from benchfleet.rentals.engine import RentedEngine

        rented = RentedEngine(post, fleet.rent, ledger, open_accounts(fleet.rent.providers))
        connected.callback(rented.await_end, interrupted)
        remote.append(rented)
    chosen = [one for plugin, one in plugins if not plugin.remote]
    one = chosen[-1] if chosen else EngineChoice(engine=LOCAL_ENGINE)
    local: Engine = registry.load("engines", one.engine).open_engine(
        post, replace(options, settings=one.settings)
    )
    if not remote:
        return local
    from benchfleet.engines.composite import CompositeEngine

    return CompositeEngine(post, local, remote)


def _ssh_engine(fleet: Fleet, post: Post, connected: contextlib.ExitStack) -> Engine:
    """What opens slots on the hosts of an inventory."""
    from benchfleet.engines.openssh import connections
    from benchfleet.engines.ssh import SshEngine
    from benchfleet.machines.wheel import interpreter_of

    hosts = [replace(host, python=interpreter_of(host)) for host in fleet.hosts]
    ssh = connected.enter_context(connections(fleet.known_hosts))
    return SshEngine(post, hosts=hosts, ssh=ssh, examine=capacity_from_facts, checks=fleet.checks)
