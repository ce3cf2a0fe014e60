"""``benchfleet doctor``: everything that a run needs, each thing with its way out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from benchfleet.campaign.inventory import load_inventory
from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.domain.humanize import counted
from benchfleet.errors import CampaignError
from benchfleet.machines.checkup import Check, machine_checks

_SIGNS = {"ok": "✓", "warning": "!", "problem": "✗"}


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    example = "benchfleet doctor study.yaml --machines machines.yaml"
    options.optional_campaign(parser, example=example)
    options.choice(parser)
    options.devices(parser)
    options.machines(parser)
    parser.add_argument(
        "--commands",
        action="store_true",
        help="print every command that benchfleet runs on a host of --machines, and end",
    )


def main(arguments: argparse.Namespace) -> int:
    """Look at all that a run needs; 1 where one would fail."""
    if arguments.commands:
        from benchfleet.cli.shared.host_commands import show

        return show(arguments)
    checks: list[Check] = []
    for one in _checks(arguments):
        checks.append(one)
        if not arguments.json:
            say(_line(one), flush=True)
            if one.fix:
                say(f"    {one.fix}", flush=True)
    problems, warnings = (
        sum(one.level == level for one in checks) for level in ("problem", "warning")
    )
    if arguments.json:
        payload = {"fit": not problems, "checks": [asdict(one) for one in checks]}
        print_json(payload)
    elif problems:
        count = f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}"
        print(f"{count}: a run would fail")
    else:
        print(f"fit to run, {counted(warnings, 'warning') if warnings else 'no warnings'}")
    return 1 if problems else 0


def _checks(arguments: argparse.Namespace) -> Iterable[Check]:
    yield from machine_checks()
    of_campaign = arguments.campaign is not None or bool(arguments.ledger)
    if of_campaign or arguments.machines is not None:
        from benchfleet.cli.shared.campaign_checks import campaign_checks, host_checks

        if of_campaign:
            yield from campaign_checks(arguments)
        if arguments.machines is not None:
            yield from host_checks(arguments)
            yield from _rent_checks(arguments)


def _rent_checks(arguments: argparse.Namespace) -> Iterable[Check]:
    """Of the providers, if the inventory can be read and names some."""
    try:
        named = bool(load_inventory(arguments.machines).providers)
    except CampaignError:
        return  # reported before
    if named:
        from benchfleet.cli.shared.rent_checks import rent_checks

        yield from rent_checks(arguments.machines)


def _line(one: Check) -> str:
    return f"{_SIGNS[one.level]} {one.what}: {one.finding}"
