"""``benchfleet reap``: take cells from runners that died, whose leases ran out."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import leases, options
from benchfleet.domain.humanize import counted
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.lease_holders import holders


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet reap study.yaml --now --host lab2")
    parser.add_argument(
        "--now", action="store_true", help="with --host: also where the lease has time left"
    )
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="what this dead host held"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(cell=[], runner=[])


def main(arguments: argparse.Namespace) -> int:
    """Take back what ran out, as every runner does; with --now what a dead host held."""
    if arguments.now != bool(arguments.host):
        raise BenchfleetError("--now and --host NAME go together: whose cells are taken now?")
    study, _ = options.opened(arguments)
    with closing(leases.ledger_of(study)) as ledger:
        before = holders(ledger, ledger.cells(states=["running"]))
        out = set(ledger.reap())
        taken = [one for one in before if one.record.fingerprint in out]
        if arguments.now:
            left = [one for one in before if one not in taken]
            meant = leases.choose(arguments, left)
            if not leases.agreed(arguments, meant, "take back"):
                print("nothing more was taken back")
                return 1
            hosts = ", ".join(arguments.host)
            taken += leases.released(ledger, meant, f"a person says that {hosts} is dead")
    why = (
        f"{counted(len(before), 'cell')} held, by leases that hold" if before else "no cell is held"
    )
    leases.tell(arguments, study, "reaped", taken, f"nothing to take back: {why}")
    return 0
