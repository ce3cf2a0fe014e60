"""``benchfleet slurm``: submit pilots to a Slurm cluster, list them, or cancel them."""

from __future__ import annotations

import argparse

from benchfleet.cli.shared import options
from benchfleet.cli.shared.actions import Action, add_actions
from benchfleet.cli.shared.slurm_work import backoff_file, pilots_name
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.verbs import slurm_status, slurm_submit
from benchfleet.domain.humanize import counted
from benchfleet.slurm.commands import Slurm


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = f"example: {slurm_submit.EXAMPLE}\ndocs: docs/slurm.md"
    add_actions(parser, _ACTIONS, _campaign)


def _campaign(parser: argparse.ArgumentParser) -> None:
    options.optional_campaign(parser, example=f"{parser.prog} study.yaml")


def main(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    return int(arguments.do(arguments))


def _cancel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queued", action="store_true", help="only those that do not run yet")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _cancel(arguments: argparse.Namespace) -> int:
    study, _ = options.opened(arguments)
    slurm, name = Slurm(), pilots_name(study)
    pilots = [one for one in slurm.pilots(name) if one.queued or not arguments.queued]
    if pilots and not arguments.yes:
        what = counted(len(pilots), "pilot")
        if not confirm(f"cancel {what}?", otherwise=f"this would cancel {what}; add --yes"):
            print("nothing was cancelled")
            return 1
    if pilots:
        slurm.cancel(name, queued_only=arguments.queued)
        backoff_file(study).unlink(missing_ok=True)  # that they ended nothing has a known cause
    if arguments.json:
        print_json({"campaign": study.campaign.name, "cancelled": [one.job for one in pilots]})
        return 0
    for pilot in pilots:
        then = "" if pilot.queued else "  stops, and releases its cells"
        say(f"  cancelled  {pilot.job}{then}")
    if not pilots:
        print(f"nothing to cancel: no pilot waits{'' if arguments.queued else ' or runs'}")
    return 0


_ACTIONS: dict[str, Action] = {
    "submit": (
        "submit pilots: batch jobs that run a worker on the campaign's ledger",
        slurm_submit.main,
        slurm_submit.configure,
    ),
    "status": ("list the pilots with the cells that they run", slurm_status.main, None),
    "cancel": (
        "cancel the pilots; running ones release their cells first",
        _cancel,
        _cancel_options,
    ),
}
