"""``benchfleet hosts``: check the machines of an inventory, or bring benchfleet to them."""

from __future__ import annotations

import argparse

from benchfleet.cli.shared import fleet
from benchfleet.cli.shared.actions import Action, add_actions
from benchfleet.cli.verbs import hosts_bootstrap, hosts_check

_ACTIONS: dict[str, Action] = {
    "check": (
        "say of every host whether it can be used, and what it has",
        hosts_check.main,
        hosts_check.configure,
    ),
    "bootstrap": (
        "bring this benchfleet to hosts, each into an environment of its own",
        hosts_bootstrap.main,
        hosts_bootstrap.configure,
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "example: benchfleet hosts check machines.yaml\n"
        "ends with 0 where all hosts are usable, 1 where one is not, 2 on bad usage"
    )
    add_actions(parser, _ACTIONS, fleet.options)


def main(arguments: argparse.Namespace) -> int:
    """Do what was asked, on all chosen hosts at once."""
    return int(arguments.do(arguments, fleet.chosen(arguments)))
