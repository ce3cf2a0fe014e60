"""``benchfleet release``: give cells back that a runner holds, without waiting for its lease."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import leases, options
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.lease_holders import holders


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet release study.yaml --host lab2")
    options.choice(parser)
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cells whose path or id matches; may be said again",
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
        raise BenchfleetError("release what? name it by --host, --runner or --cell; see status")
    study, cells = options.opened(arguments)
    with closing(leases.ledger_of(study)) as ledger:
        records = ledger.cells(
            states=["running"], fingerprints={cell.fingerprint for cell in cells}
        )
        meant = leases.choose(arguments, holders(ledger, records))
        if not leases.agreed(arguments, meant, "release"):
            print("nothing was released")
            return 1
        given = leases.released(ledger, meant, "a person gave it back")
    none = "nothing to release: no such cell is held"
    leases.tell(arguments, study, "released", given, none)
    return 0
