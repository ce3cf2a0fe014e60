"""``benchfleet reassign``: give what a failed machine held and was to do to the others."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli import holding, options
from benchfleet.domain.event import Event

FAILED = "machine_failed"  # data: host, cells (fingerprints), by (who said so)


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.told_campaign(parser, example="benchfleet reassign study.yaml --failed-machine lab2")
    parser.add_argument(
        "--failed-machine",
        dest="host",
        action="append",
        required=True,
        metavar="HOST",
        help="the machine, as `status` calls it; may be said again",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(cell=[], runner=[])


def main(arguments: argparse.Namespace) -> int:
    """Release all that its runners hold, and record that it failed; should it still live, what it
    finishes is refused."""
    bench, _ = options.opened(arguments)
    with closing(holding.ledger_of(bench)) as ledger:
        found = holding.held(ledger, ledger.cells(states=["running"]))
        meant = holding.choose(arguments, found)
        if not holding.agreed(arguments, meant, "reassign"):
            print("nothing was reassigned")
            return 1
        given = []
        for host in dict.fromkeys(arguments.host):
            own = [one for one in meant if one.host == host]
            names = [str(one.record.fingerprint) for one in own]
            data = {"host": host, "cells": names, "by": bench.host}
            ledger.record(Event(kind=FAILED, data=data))
            given += holding.released(ledger, own, f"its machine {host} failed")
        known = sorted({one.host for one in found if one.host})
    others = f"; cells are held on {', '.join(known)}" if known else ""
    none = f"{', '.join(arguments.host)} holds no cell{others}"
    holding.tell(arguments, bench, "reassigned", given, none)
    return 0
