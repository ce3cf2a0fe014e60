"""``benchfleet cancel``: end cells that are not wanted any more; what they have is kept."""

from __future__ import annotations

import argparse
from contextlib import closing

from benchfleet.cli.shared import next_command, options, selection
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.domain.humanize import counted
from benchfleet.orders import cells as orders
from benchfleet.orders.base import Origin, who


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    selection.configure(parser, example="benchfleet cancel study.yaml --only models=large --yes")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Cancel pending and running cells; a runner stops them after the sample at hand."""
    study, cells = options.opened(arguments)
    with closing(study.open_ledger()) as ledger:
        ledger.enroll(cells)
        among = {str(cell.fingerprint) for cell in cells}
        active = ledger.cells(states=["pending", "running"], fingerprints=among)
        selection.check(arguments, study, ledger.cells(fingerprints=among))
        chosen = selection.selected(arguments, active)
        running = [record.path for record in chosen if record.state == "running"]
        if chosen and not arguments.yes and not _agreed(len(chosen), len(running)):
            print("nothing was cancelled")
            return 1
        cancelled = orders.cancel(ledger, chosen, Origin(by=who(study)))
    if arguments.json:
        payload = {"campaign": study.campaign.name, "cancelled": cancelled, "running": running}
        print_json(payload)
        return 0
    for path in cancelled:
        stops = "  its runner stops it after the sample at hand" if path in running else ""
        say(f"  cancelled  {path}{stops}")
    if not cancelled:
        print("nothing to cancel: none of these cells is pending or running")
    else:
        back = next_command.same_choice(arguments, "retry")
        what = "it" if len(cancelled) == 1 else "them"
        say(f"bring {what} back with: {back} --cancelled")
    return 0


def _agreed(cells: int, running: int) -> bool:
    chosen = counted(cells, "cell")
    return confirm(
        f"cancel {chosen} ({running} running, whose samples are kept)?",
        otherwise=f"this would cancel {chosen} ({running} running); add --yes",
    )
