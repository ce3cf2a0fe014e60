"""``benchfleet ledger``: care for the ledger itself."""

from __future__ import annotations

import argparse
import json

from benchfleet.bench import open_bench
from benchfleet.campaign.load import load_campaign
from benchfleet.cli import options
from benchfleet.cli.words import printable
from benchfleet.runner.rebuild import rebuild


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("act", choices=("rebuild",), help="make it again from the results")
    options.campaign(parser, example="benchfleet ledger rebuild study.yaml")


def main(arguments: argparse.Namespace) -> int:
    """Make the ledger again from the published results; a damaged one is kept beside it."""
    found = load_campaign(arguments.campaign)
    if arguments.results is not None:
        found = found.with_results(arguments.results)
    bench = open_bench(found, ledger=arguments.ledger)
    moved = bench.set_aside_damaged_ledger()
    ledger = bench.ledger(known_results=True)
    try:
        told = rebuild(ledger, bench.layout)
    finally:
        ledger.close()
    if arguments.json:
        print(json.dumps({**told.to_dict(), "damaged": str(moved or "")}, indent=2))
        return 1 if told.refused else 0
    if moved:
        print(printable(f"the damaged ledger is kept as {moved}"))
    print(f"{told.taken} results taken in, {told.known} were known")
    for path, why in told.refused:
        print(printable(f"  left out  {path}: {why}"))
    return 1 if told.refused else 0
