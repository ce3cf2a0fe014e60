"""``benchfleet release``: give cells back that a runner holds, without waiting for its lease."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import leases, options
from benchfleet.domain.humanize import examples
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.lease_holders import holders
from benchfleet.ledger.parts import parts_of
from benchfleet.orders.base import Origin, who
from benchfleet.orders.cells import release


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet release study.yaml --host lab2")
    options.choice(parser)
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose path or id matches; ! negates; repeatable",
    )
    parser.add_argument(
        "--runner",
        action="append",
        default=[],
        metavar="ID",
        help="only what this runner holds, by the beginning of its name as `status` shows it",
    )
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="only what this host holds"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Give the cells back; a runner that is still alive stops them, and publishes nothing."""
    if not (arguments.cell or arguments.runner or arguments.host):
        raise BenchfleetError(
            "nothing selected: use --host, --runner or --cell; `status` lists them"
        )
    study, cells = options.opened(arguments)
    with closing(leases.ledger_of(study)) as ledger:
        among = {str(cell.fingerprint) for cell in cells}
        among.update(*parts_of(ledger, among).values())
        records = ledger.cells(states=["running"], fingerprints=among)
        holding = holders(ledger, records)
        chosen = leases.choose(arguments, holding)
        if not leases.confirmed(arguments, chosen, "release"):
            print("nothing was released")
            return 1
        released = release(ledger, chosen, Origin(by=who(study)).reason)
    none = "nothing to release: no runner holds such a cell"
    if hosts := sorted({one.host for one in holding if one.host}):
        none += f"; some run on {examples(hosts)}"
    leases.print_pending(arguments, study, "released", released, none)
    return 0
