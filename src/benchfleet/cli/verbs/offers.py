"""``benchfleet offers``: GPUs that can be rented now, cheapest first."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from benchfleet import registry
from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.text.output import print_json, print_whole
from benchfleet.domain import units
from benchfleet.domain.rent import ProviderAccess
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.providers.base import GpuOffer, Want
from benchfleet.rentals.accounts import open_provider

_MILLION = 1_000_000
_GIB = 1 << 30


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = 'example: benchfleet offers --gpu "RTX 4090" --max-price "0.60 USD/h"'
    parser.add_argument("--gpu", metavar="NAME", required=True, help="such as RTX 4090")
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help="for each machine (1)")
    parser.add_argument("--max-price", metavar="PRICE", default="", help="such as 0.60 USD/h")
    parser.add_argument("--disk", metavar="SIZE", default="", help="size of the disk, such as 60GB")
    parser.add_argument("--region", metavar="TEXT", default="", help="part of its name")
    parser.add_argument(
        "--machines",
        metavar="FILE",
        type=Path,
        help="ask the providers of this inventory (all whose key is in the environment)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Ask each provider, and print what all of them offer."""
    want = _want(arguments)
    if arguments.machines is not None:
        accesses = load_inventory(arguments.machines).providers
    else:
        accesses = _with_key_here()
    offers: list[GpuOffer] = []
    problems: list[BenchfleetError] = []
    for access in accesses:
        try:
            offers += open_provider(access).offers(want)
        except BenchfleetError as error:
            problems.append(error)
    if problems and len(problems) == len(accesses):
        raise problems[0]
    offers.sort(key=lambda offer: (offer.currency, offer.hourly))
    if arguments.json:
        print_json({"offers": [asdict(offer) for offer in offers]})
        return 0
    for problem in problems:
        print(f"  note  {problem}")
    if offers:
        print_whole(_table(offers))
    else:
        dearer = "try a higher --max-price, or " if arguments.max_price else ""
        advice = f"{dearer}correct the name of the GPU"
        print(f"nobody offers {arguments.gpu} on these terms now; {advice}")
    return 0 if offers else 1


def _with_key_here() -> tuple[ProviderAccess, ...]:
    """The providers whose key is in the environment."""
    variables = {
        name: variable
        for name in registry.names("providers")
        if (variable := registry.load("providers", name).key_variable)
    }
    if not any(map(os.environ.get, variables.values())):
        names = ", ".join(variables.values())
        raise BenchfleetError(f"the environment has no key of a provider; set one of {names}")
    return tuple(
        ProviderAccess(name=name)
        for name, variable in variables.items()
        if os.environ.get(variable)
    )


def _want(arguments: argparse.Namespace) -> Want:
    limit = None
    try:
        if arguments.max_price:
            limit = round(units.price(arguments.max_price).amount * _MILLION)
        disk = units.size(arguments.disk) if arguments.disk else 0
    except ValueError as error:
        option = "--max-price" if limit is None and arguments.max_price else "--disk"
        raise wrong_option(option, str(error)) from None
    return Want(
        gpu=arguments.gpu,
        count=arguments.gpus,
        max_price=limit,
        disk=disk,
        region=arguments.region,
    )


def _table(offers: list[GpuOffer]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("price/h", "GPU", "memory", "provider", "offer", "region", "reliability", "CUDA"):
        table.add_column(title, justify="right" if title == "price/h" else "left")
    for offer in offers:
        reliable = "" if offer.reliability is None else f"{offer.reliability:.1%}"
        table.add_row(
            f"{offer.hourly / _MILLION:.3f} {offer.currency}",
            f"{offer.count} × {offer.gpu}" if offer.count > 1 else offer.gpu,
            f"{offer.vram / _GIB:.0f} GiB",
            offer.provider,
            offer.id,
            offer.region,
            reliable,
            offer.cuda,
        )
    return table
