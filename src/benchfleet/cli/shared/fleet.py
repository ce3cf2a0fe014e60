"""The hosts of an inventory that a command is about, and doing something on all of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from benchfleet import registry
from benchfleet.campaign.inventory import (
    Inventory,
    choose_hosts,
    known_hosts_of,
    load_inventory,
    same_machines,
)
from benchfleet.cli.shared.options import RequestedDevices, hosts
from benchfleet.cli.shared.rent import rent_request
from benchfleet.cli.text.output import say
from benchfleet.domain.budget import Budget
from benchfleet.domain.engine_choice import EngineChoice
from benchfleet.domain.host import Host
from benchfleet.domain.resource import GpuChecks
from benchfleet.errors import CampaignError, Mistake, wrong_option
from benchfleet.fleet import Fleet, choose_pool
from benchfleet.rentals.accounts import hide_keys

T = TypeVar("T")
_MAX_PARALLEL_HOSTS = 32  # hosts; each takes a thread and an ssh


def options(parser: argparse.ArgumentParser) -> None:
    """The inventory, and the part of it that is meant."""
    parser.add_argument("machines", metavar="MACHINES", type=Path, help="the inventory file")
    hosts(parser)


def chosen(arguments: argparse.Namespace) -> tuple[Host, ...]:
    """The hosts that are meant: one at least. Raises CampaignError."""
    hosts = choose_hosts(load_inventory(arguments.machines), arguments.hosts).hosts
    if not hosts:
        message = "contains no remote machine; add the machines under 'hosts:'"
        raise CampaignError(str(arguments.machines), [Mistake(key="hosts", message=message)])
    return hosts


def warn_of_same_machines(hosts: Sequence[Host]) -> None:
    """Warn of hosts that are one machine."""
    for message in same_machines(hosts):
        say(f"warning: {message}", to=sys.stderr)


def machines(
    arguments: argparse.Namespace,
    devices: RequestedDevices,
    declared: EngineChoice | None,
    budget: Budget | None = None,
) -> Fleet:
    """The machines of a run: this one, those of an engine, or those selected from an inventory.
    With an inventory or an engine of other machines, this machine takes part if the inventory has
    it or the command line names devices of it. `declared` is the campaign's engine. Raises
    CampaignError and PluginError."""
    checks = GpuChecks(share=arguments.share_gpus, trial=arguments.trial_gpus)
    engine = chosen_engine(arguments, declared)
    engines = (engine,) if engine else ()
    elsewhere = any(registry.load("engines", one.engine).remote for one in engines)
    names_devices = arguments.gpus is not None or arguments.cpu_slots is not None
    if arguments.machines is None and arguments.hosts:
        message = "selects machines of an inventory; name the file with --machines"
        raise wrong_option("--hosts", message)
    if arguments.machines is None and not elsewhere and not arguments.rent:
        if checks.share and not devices.gpus:
            message = "shares GPUs with other processes; name the GPUs: --gpus 0,1"
            raise wrong_option("--share-gpus", message)
        pool = choose_pool(devices)
        if checks.trial and not any(device.kind == "gpu" for device in pool.devices):
            message = "tries GPUs, but the run uses CPU slots; drop it"
            raise wrong_option("--trial-gpus", message)
        return Fleet(
            pool=pool,
            engines=engines,
            checks=checks,
            named=bool(devices.gpus),
            trial_load=arguments.trial_load,
        )
    inventory, known_hosts = Inventory(), Path(os.devnull)
    if arguments.machines is not None:
        inventory = choose_hosts(load_inventory(arguments.machines), arguments.hosts)
        known_hosts = known_hosts_of(arguments.machines)
        hide_keys(inventory.providers)  # cells need none of them
    local = inventory.local
    if local is not None:
        price = devices.price if local.price is None else local.price
        devices = replace(devices if names_devices else local, price=price)
    uses_local = names_devices or local is not None
    engines = (*engines, *inventory.engines)
    if inventory.rent and not (arguments.rent or uses_local or inventory.hosts or engines):
        raise wrong_option("--machines", "names only machines to rent; add --rent")
    return Fleet(
        pool=choose_pool(devices) if uses_local else None,
        hosts=inventory.hosts,
        known_hosts=known_hosts,
        engines=engines,
        rent=rent_request(arguments, inventory, budget),
        checks=checks,
        named=bool(devices.gpus),
        trial_load=arguments.trial_load,
    )


def chosen_engine(
    arguments: argparse.Namespace, declared: EngineChoice | None
) -> EngineChoice | None:
    """The engine of the command line, or else the campaign's. Raises CampaignError for the address
    of another engine, and PluginError."""
    chosen = declared
    if arguments.engine and (declared is None or declared.engine != arguments.engine):
        registry.load("engines", arguments.engine)
        chosen = EngineChoice(engine=arguments.engine)
    if not (address := arguments.ray_address):
        return chosen
    if chosen is None or chosen.engine != "ray":
        raise wrong_option(f"--ray-address {address}", "is for --engine ray; add that")
    return replace(chosen, settings={**chosen.settings, "address": address})


def other_machines(engine: EngineChoice | None) -> registry.PluginInfo | None:
    """The engine if it runs cells on machines of its own, which only a run sees."""
    info = registry.info("engines", engine.engine) if engine else None
    return info if info and info.plugin and info.plugin.remote else None


def on_all(
    hosts: Sequence[Host], do: Callable[[Host], T], *, end: Callable[[], None] = lambda: None
) -> list[T]:
    """What `do` gives for each host, all at the same time, in the order of the hosts. Ctrl-C calls
    `end`, and waits for what is under way."""
    with ThreadPoolExecutor(
        min(_MAX_PARALLEL_HOSTS, len(hosts)), thread_name_prefix="host"
    ) as threads:
        try:
            return list(threads.map(do, hosts))
        except BaseException:
            end()
            raise
