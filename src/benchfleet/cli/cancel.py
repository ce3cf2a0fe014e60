"""``benchfleet cancel``: end cells that are not wanted any more; what they have is kept."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing

from benchfleet.cli import options, selection
from benchfleet.cli.words import printable
from benchfleet.domain.event import Event
from benchfleet.domain.words import counted
from benchfleet.errors import BenchfleetError


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    selection.configure(parser, example="benchfleet cancel study.yaml --only models=large --yes")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Cancel pending and running cells; a runner stops them after the sample at hand."""
    bench, cells = options.opened(arguments)
    with closing(bench.ledger()) as ledger:
        ledger.enroll(cells)
        among = {str(cell.fingerprint) for cell in cells}
        found = ledger.cells(states=["pending", "running"], among=among)
        selection.check(arguments, bench, ledger.cells(among=among))
        meant = selection.selected(arguments, found)
        running = [record.path for record in meant if record.state == "running"]
        if meant and not arguments.yes and not _agreed(len(meant), len(running)):
            print("nothing was cancelled")
            return 1
        for record in meant:
            ledger.record(Event(kind="cancel_asked", fingerprint=record.fingerprint))
        names = [record.fingerprint for record in meant]
        ended = ledger.cells(states=["cancelled"], among=names)
        cancelled = [record.path for record in ended]
    if arguments.json:
        told = {"campaign": bench.campaign.name, "cancelled": cancelled, "running": running}
        print(json.dumps(told, indent=2))
        return 0
    for path in cancelled:
        stops = "  its runner stops it after the sample at hand" if path in running else ""
        print(printable(f"  cancelled  {path}{stops}"))
    if not cancelled:
        print("nothing to cancel: none of these cells is pending or running")
    else:
        back = options.same_choice(arguments, "retry")
        what = "it" if len(cancelled) == 1 else "them"
        print(printable(f"bring {what} back with: {back} --cancelled"))
    return 0


def _agreed(cells: int, running: int) -> bool:
    if not sys.stdin.isatty():
        raise BenchfleetError(
            f"this would cancel {counted(cells, 'cell')} ({running} running); say --yes"
        )
    asked = f"cancel {counted(cells, 'cell')} ({running} running, whose samples are kept)? [y/N] "
    print(asked, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
