"""``benchfleet hosts``: check the machines of an inventory, or bring benchfleet to them."""

from __future__ import annotations

import argparse

from benchfleet.cli.shared import fleet
from benchfleet.cli.verbs import hosts_bootstrap, hosts_check

_ACTIONS = {
    "check": "say of every host whether it can be used, and what it has",
    "bootstrap": "bring this benchfleet to hosts, each into an environment of its own",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = (
        "example: benchfleet hosts check machines.yaml\n"
        "ends with 0 where all hosts are usable, 1 where one is not, 2 on bad usage"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, module in (("check", hosts_check), ("bootstrap", hosts_bootstrap)):
        help = _ACTIONS[name]
        action_parser = actions.add_parser(
            name, help=help, description=help.capitalize(), allow_abbrev=False
        )
        fleet.options(action_parser)
        module.configure(action_parser)
        action_parser.add_argument("--debug", action="store_true", help="show an error's traceback")


def main(arguments: argparse.Namespace) -> int:
    """Do what was asked, on all chosen hosts at once."""
    hosts = fleet.chosen(arguments)
    if arguments.action == "check":
        return hosts_check.main(arguments, hosts)
    return hosts_bootstrap.main(arguments, hosts)
