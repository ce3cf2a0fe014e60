"""``benchfleet reap``: return cells of dead runners, whose leases expired."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import leases, options
from benchfleet.domain.humanize import counted
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.lease_holders import holders
from benchfleet.orders.cells import release


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet reap study.yaml --now --host lab2")
    parser.add_argument(
        "--now", action="store_true", help="with --host: also cells whose lease is still valid"
    )
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="the cells of this dead host"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(cell=[], runner=[])


def main(arguments: argparse.Namespace) -> int:
    """Take back what ran out, as every runner does; with --now what a dead host held."""
    if arguments.now != bool(arguments.host):
        raise BenchfleetError("--now needs --host NAME, and --host needs --now")
    study, _ = options.opened(arguments)
    with closing(leases.ledger_of(study)) as ledger:
        before = holders(ledger, ledger.cells(states=["running"], parts=True))
        out = set(ledger.reap())
        reaped = [one for one in before if one.record.fingerprint in out]
        if arguments.now:
            unexpired = [one for one in before if one not in reaped]
            chosen = leases.choose(arguments, unexpired)
            if not leases.confirmed(arguments, chosen, "reap"):
                print("nothing more was reaped")
                return 1
            hosts = ", ".join(arguments.host)
            reaped += release(ledger, chosen, f"a user says that {hosts} is dead")
    why = f"{counted(len(before), 'cell')} held with valid leases" if before else "no cell is held"
    leases.print_pending(arguments, study, "reaped", reaped, f"nothing to reap: {why}")
    return 0
