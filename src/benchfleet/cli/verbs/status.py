"""``benchfleet status``: how far a campaign is, from its ledger alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

from benchfleet.cli.shared import leases, missing_ledger, options
from benchfleet.cli.text import gate_text, placement_text
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.remote_results import counted_stores
from benchfleet.domain.humanize import counted
from benchfleet.domain.state import STATES
from benchfleet.reports.spending import in_all
from benchfleet.status import Status, status_of

Command = Callable[[str], str]  # the command line of another verb on the same cells


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.optional_campaign(parser, example="benchfleet status study.yaml --json")
    options.choice(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show how many cells are pending, running and done, who runs what, and what failed."""
    study, cells = options.opened(arguments)
    status = status_of(study, cells)
    if not status.has_ledger:
        missing_ledger.warn(arguments, study)
    if arguments.json:
        print_json(status.to_dict())
    else:
        say(*lines(status, partial(options.same_choice, arguments)))
    return 0


def lines(status: Status, command: Command) -> Iterator[str]:
    """The status as text, with the commands that help."""
    counts = [f"{status.counts[state]} {state}" for state in STATES if status.counts[state]]
    counts.insert(0, counted(status.counts["total"], "cell"))
    yield f"{status.campaign}: {' · '.join(counts)}"
    yield from gate_text.lines(status.phases)
    yield from placement_text.lines(status.kept_off, status.notes)
    if took := in_all(status.used):
        yield f"  used     {took}"
    for one in status.holders:
        yield f"  running  {one.record.path}  ({leases.holder_text(one)})"
    yield from _failed(status, command)
    yield from _cancelled(status, command)
    yield from _results(status, command)


def _failed(status: Status, command: Command) -> Iterator[str]:
    for record in status.failed:
        yield f"  {record.state}  {record.path}  {record.outcome.why if record.outcome else ''}"
    if status.failed:
        failed_only = " --failed" if status.counts["cancelled"] else ""
        yield f"why, and what to do: {command('failures')}"
        yield f"try them again: {command('retry')}{failed_only}"


def _cancelled(status: Status, command: Command) -> Iterator[str]:
    if count := status.counts["cancelled"]:
        them = "it" if count == 1 else "them"
        cells = counted(count, "cell", "are")
        yield f"{cells} cancelled; bring {them} back: {command('retry')} --cancelled"


def _results(status: Status, command: Command) -> Iterator[str]:
    """The results that are not where they belong."""
    for one in status.unpublished:
        then = "the next run puts it at its place"
        if one.blocked:
            then = f"something else lies at its place: {command('verify')}"
        yield f"  waits    {one.path}  done; {then}"
    if status.elsewhere:
        stores = counted_stores(status.elsewhere.values())
        yield f"results that are not here: {stores}; bring them: {command('merge')}"
    if status.unsent:
        yield f"{counted(status.unsent, 'result', 'wait')} to be put to {status.store}"
    for path in status.missing:
        yield f"  gone     {path}  done, but its results are not there"
    if status.missing:
        yield f"run them again: {command('retry')} --gone"
