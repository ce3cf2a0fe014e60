"""``benchfleet slurm``: submit pilots to a Slurm cluster, list them, or cancel them."""

from __future__ import annotations

import argparse

from benchfleet.cli.shared import options
from benchfleet.cli.shared.slurm_work import backoff_file, pilots_name
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.verbs import slurm_status, slurm_submit
from benchfleet.domain.humanize import counted
from benchfleet.slurm.commands import Slurm

_ACTIONS = {
    "submit": "submit pilots: batch jobs that run a worker on the campaign's ledger",
    "status": "list the pilots with the cells that they run",
    "cancel": "cancel the pilots; running ones release their cells first",
}
_EXAMPLE = (
    "benchfleet slurm submit study.yaml --workers 4 --partition gpu --gres gpu:1 --time 4:00:00"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = f"example: {_EXAMPLE}\ndocs: docs/slurm.md"
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, help in _ACTIONS.items():
        action_parser = actions.add_parser(
            name, help=help, description=help.capitalize(), allow_abbrev=False
        )
        example = _EXAMPLE if name == "submit" else f"benchfleet slurm {name} study.yaml"
        options.optional_campaign(action_parser, example=example)
        action_parser.add_argument("--debug", action="store_true", help="show an error's traceback")
        if name == "submit":
            options.choice(action_parser)
            slurm_submit.configure(action_parser)
        if name == "cancel":
            action_parser.add_argument(
                "--queued", action="store_true", help="only those that do not run yet"
            )
            action_parser.add_argument("--yes", action="store_true", help="do not ask")


def main(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    if arguments.action == "submit":
        return slurm_submit.main(arguments)
    if arguments.action == "status":
        return slurm_status.main(arguments)
    return _cancel(arguments)


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
        then = "" if pilot.queued else "  stops after the sample at hand and releases its cells"
        say(f"  cancelled  {pilot.job}{then}")
    if not pilots:
        print(f"nothing to cancel: no pilot waits{'' if arguments.queued else ' or runs'}")
    return 0
