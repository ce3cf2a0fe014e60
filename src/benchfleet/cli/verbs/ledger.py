"""``benchfleet ledger``: care for the ledger itself."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from functools import partial
from typing import Any, cast

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.shared import options
from benchfleet.cli.shared.actions import Action, add_actions
from benchfleet.cli.shared.leases import ledger_of
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.progress_line import progress_line
from benchfleet.cli.text.terminal import printable
from benchfleet.domain.humanize import counted
from benchfleet.errors import LedgerError
from benchfleet.ledger.addresses import split_url
from benchfleet.ledger.fsck import problems
from benchfleet.ledger.postgres.grants import reader_grants, runner_grants
from benchfleet.ledger.table_copy import CopyableLedger, copy_ledger, running_cells_warning
from benchfleet.runner.recovery.rebuild import rebuild
from benchfleet.runner.resources.local_host import this_host
from benchfleet.study import Study, open_study

_EXAMPLE = "benchfleet ledger rebuild study.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = f"example: {_EXAMPLE}"
    add_actions(parser, _ACTIONS, partial(options.campaign, example=_EXAMPLE))


def _copy_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="URL", required=True, help="the empty ledger")
    parser.add_argument(
        "--yes", action="store_true", help="copy although runners hold cells of the ledger"
    )


def main(arguments: argparse.Namespace) -> int:
    """Do the action and print its result."""
    campaign = load_campaign(arguments.campaign).with_results(arguments.results)
    return int(arguments.do(arguments, open_study(campaign, ledger=arguments.ledger)))


def _rebuild(arguments: argparse.Namespace, study: Study) -> int:
    """Make the ledger again from the published results; a damaged one is kept beside it."""
    study.home.refuse_second()
    moved = study.home.set_aside_damaged()
    ledger = study.open_ledger(known_results=True)
    try:
        with progress_line("results taken in") as progress:
            host = this_host(host=study.host, folder=study.layout.own_id())
            outcome = rebuild(ledger, study.layout, host, seen=progress)
    finally:
        ledger.close()
    if arguments.json:
        print_json({**outcome.to_dict(), "damaged": str(moved or "")})
        return 1 if outcome.refused else 0
    if moved:
        say(f"the damaged ledger is kept as {moved}")
    print(f"{counted(outcome.entered, 'result')} taken in, {outcome.unchanged} were known")
    for path, why in outcome.refused:
        say(f"  left out  {path}: {why}")
    return 1 if outcome.refused else 0


def _init(arguments: argparse.Namespace, study: Study) -> int:
    """Make the ledger where there is none."""
    existing = study.open_existing_ledger(writes=True)
    is_new = existing is None
    with closing(existing or study.open_ledger()) as ledger:
        study.record_campaign(ledger)
    name, where = study.campaign.name, study.ledger_text
    rights = {}
    if split_url(study.url)[0].startswith("postgres"):
        rights = {"run": runner_grants(name, "ROLE"), "look": reader_grants(name, "ROLE")}
    lines = [f"{where} {'is made' if is_new else 'was there'}"]
    if rights:
        lines += ["-- for a ROLE that runs cells", *rights["run"].splitlines()]
        lines += ["-- for one that only looks", *rights["look"].splitlines()]
    return _print_result(arguments, {"ledger": where, "made": is_new, "rights": rights}, *lines)


def _check(arguments: argparse.Namespace, study: Study) -> int:
    with closing(ledger_of(study)) as ledger:
        faults = list(problems(cast(CopyableLedger, ledger)))
        cells = sum(1 for _ in ledger.cells())
    where = study.ledger_text
    many = counted(len(faults), "fault") if faults else "no faults"
    lines = [*faults, f"{where}: {counted(cells, 'cell')}, {many}"]
    payload = {"ledger": where, "cells": cells, "faults": faults}
    return _print_result(arguments, payload, *lines) or (1 if faults else 0)


def _copy(arguments: argparse.Namespace, study: Study) -> int:
    target = open_study(study.campaign, ledger=arguments.to)
    if target.ledger_text == study.ledger_text:
        raise LedgerError(f"{study.ledger_text} cannot be copied to itself")
    with (
        closing(ledger_of(study)) as source,
        closing(target.open_ledger(known_results=True)) as other,
    ):
        if arguments.yes and (warning := running_cells_warning(source)):
            print(
                printable(f"benchfleet: {warning}; end them before the copy is run"),
                file=sys.stderr,
            )
        with progress_line("copied") as progress:
            ledgers = cast(CopyableLedger, source), cast(CopyableLedger, other)
            cells = copy_ledger(*ledgers, ignore_running=arguments.yes, seen=progress)
    where = target.ledger_text
    payload = {"ledger": study.ledger_text, "to": where, "cells": cells}
    copied = f"{counted(cells, 'cell')} copied with all history to {where}"
    return _print_result(arguments, payload, f"{copied}; name it with --ledger from now on")


def _print_result(arguments: argparse.Namespace, payload: dict[str, Any], *lines: str) -> int:
    if arguments.json:
        print_json(payload)
    else:
        print("\n".join(map(printable, lines)))
    return 0


_ACTIONS: dict[str, Action] = {
    "rebuild": ("make the ledger again from the published results", _rebuild, None),
    "init": ("make an empty one, and say what lets other roles of its server use it", _init, None),
    "check": ("check whether what it holds fits together", _check, None),
    "copy": ("copy all of it, with its whole history, to an empty one", _copy, _copy_options),
}
