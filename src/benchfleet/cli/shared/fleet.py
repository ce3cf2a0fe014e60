"""The hosts of an inventory that a command is about, and doing something on all of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from benchfleet.campaign.inventory import choose_hosts, known_hosts_of, load_inventory
from benchfleet.cli.shared.options import RequestedDevices, hosts
from benchfleet.domain.host import Host
from benchfleet.domain.resource import GpuChecks
from benchfleet.errors import CampaignError, Mistake, wrong_option
from benchfleet.fleet import Fleet, choose_pool

T = TypeVar("T")
_AT_ONCE = 32  # hosts; each takes a thread and an ssh


def options(parser: argparse.ArgumentParser) -> None:
    """The inventory, and the part of it that is meant."""
    parser.add_argument("machines", metavar="MACHINES", type=Path, help="the inventory file")
    hosts(parser)


def chosen(arguments: argparse.Namespace) -> tuple[Host, ...]:
    """The hosts that are meant: one at least. Raises CampaignError."""
    hosts = choose_hosts(load_inventory(arguments.machines), arguments.hosts).hosts
    if not hosts:
        message = "names no machine but this one; write those to reach under 'hosts:'"
        raise CampaignError(str(arguments.machines), [Mistake(key="hosts", message=message)])
    return hosts


def machines(arguments: argparse.Namespace, devices: RequestedDevices) -> Fleet:
    """The machines that a run is to use: this one, or those chosen of an inventory. This one takes
    part in the latter where the inventory has it, or the command line names devices of it. Raises
    CampaignError."""
    checks = GpuChecks(share=arguments.share_gpus, trial=arguments.trial_gpus)
    if arguments.machines is None:
        if arguments.hosts:
            message = "chooses among the machines of an inventory; name it with --machines"
            raise wrong_option("--hosts", message)
        if checks.share and not devices.gpus:
            message = "uses GPUs that others are on, so it must be said which: --gpus 0,1"
            raise wrong_option("--share-gpus", message)
        return Fleet(
            pool=choose_pool(devices),
            checks=checks,
            named=bool(devices.gpus),
            trial_load=arguments.trial_load,
        )
    inventory = choose_hosts(load_inventory(arguments.machines), arguments.hosts)
    given = arguments.gpus is not None or arguments.cpu_slots is not None
    here = inventory.local
    if here is not None:
        price = devices.price if here.price is None else here.price
        devices = replace(devices if given else here, price=price)
    return Fleet(
        pool=choose_pool(devices) if given or here is not None else None,
        hosts=inventory.hosts,
        known_hosts=known_hosts_of(arguments.machines),
        checks=checks,
        named=bool(devices.gpus),
        trial_load=arguments.trial_load,
    )


def on_all(hosts: Sequence[Host], do: Callable[[Host], T]) -> list[T]:
    """What `do` gives for each host, all at the same time, in the order of the hosts."""
    with ThreadPoolExecutor(min(_AT_ONCE, len(hosts)), thread_name_prefix="host") as threads:
        return list(threads.map(do, hosts))
