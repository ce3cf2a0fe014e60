"""The runs of this machine that a command is about, and how one was called."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet.campaign.load import load_campaign
from benchfleet.cli.shared import next_command, option_types
from benchfleet.cli.text.terminal import display_path
from benchfleet.errors import BenchfleetError
from benchfleet.ledger.addresses import display_url, split_url
from benchfleet.results.layout import Layout
from benchfleet.runs.registry import Record, active_runs, runs_of
from benchfleet.study import Study

_PATHS = ("campaign", "results", "machines")
_CHOICE = ("only", "exclude", "limit", "hosts", "verb", "named", "models", "forever")


def configure(parser: argparse.ArgumentParser, *, example: str) -> None:
    """Which runs are meant."""
    parser.epilog = f"example: {example}"
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        type=Path,
        nargs="?",
        help="the campaign file, or a folder of results; without it, your runs on this machine",
    )
    parser.add_argument("--results", metavar="DIR", type=Path, help="its results folder")
    parser.add_argument(
        "--pid", metavar="N", type=option_types.count, help="the run of this process"
    )


def runs(arguments: argparse.Namespace) -> list[Record]:
    """The runs that are meant, the latest first: those that go on on this machine, and those that
    a campaign's folder records. Raises CampaignError."""
    if arguments.campaign is None and arguments.results is None:
        records = active_runs()
    else:
        records = runs_of(_layout(arguments))
    return [run for run in records if arguments.pid in (None, run.process.pid)]


def nothing_runs(arguments: argparse.Namespace, records: Sequence[Record]) -> str:
    """That none of these goes on here, and where one may."""
    what = f"of {arguments.campaign}" if arguments.campaign else "of yours"
    elsewhere = {run.process.host for run in records if not run.end and run.process.lives() is None}
    on = f"; one may be, on {', '.join(sorted(elsewhere))}" if elsewhere else ""
    return f"no run {what} is active on this machine{on}"


def command_arguments(record: Record, arguments: argparse.Namespace) -> argparse.Namespace | None:
    """The options of the run's command line, as they are to be written from here; None where it
    was no command but a call of the library."""
    if not record.command:
        return None
    command = dict(record.command)
    for key in _PATHS:
        command[key] = command[key] and display_path(Path(command[key]))
    return argparse.Namespace(**{**vars(arguments), **command})


def like_last_run(arguments: argparse.Namespace, layout: Layout) -> argparse.Namespace:
    """The arguments, with the machines and devices of the last run over this folder where they
    name none: for the command of a run that uses the same."""
    last = next((run.command for run in runs_of(layout) if run.command), {})
    machines = {key: last.get(key) for key in ("machines", "hosts", *next_command.DEVICES)}
    machines["machines"] = machines["machines"] and display_path(Path(machines["machines"]))
    own = {key: value for key, value in vars(arguments).items() if value is not None}
    return argparse.Namespace(**{**vars(arguments), **machines, **own})


def command_of(arguments: argparse.Namespace, study: Study) -> Mapping[str, Any]:
    """What of a run's command line is to be known elsewhere; its paths are absolute, and the
    address of a ledger on a server has no password."""
    command = {
        key: getattr(arguments, key)
        for key in (*_CHOICE, *next_command.DEVICES)
        if hasattr(arguments, key)
    }
    for key in _PATHS:
        path = getattr(arguments, key)
        command[key] = path and os.path.abspath(path)
    scheme, rest = split_url(study.url)
    local = study.url and scheme == "sqlite"
    return {
        **command,
        "ledger": f"sqlite:{os.path.abspath(rest)}" if local else display_url(study.url),
    }


def command_text(arguments: argparse.Namespace, verb: str, folder: Path | None = None) -> str:
    """The command of `attach` or `stop` on the same campaign, to be copied; without its file it is
    named by the folder of its results."""
    about = argparse.Namespace(campaign=arguments.campaign, results=arguments.results, ledger="")
    if about.campaign is None and folder is not None:
        about = argparse.Namespace(campaign=display_path(folder), results=None, ledger="")
    return next_command.same_choice(about, verb)


def _layout(arguments: argparse.Namespace) -> Layout:
    if arguments.campaign is None:
        return Layout(arguments.results.absolute())
    if arguments.campaign.is_dir():
        return Layout(arguments.campaign.absolute())
    campaign = load_campaign(arguments.campaign).with_results(arguments.results)
    return Layout(campaign.results)


def single_run(arguments: argparse.Namespace, records: Sequence[Record]) -> Record:
    """The one run to show: the only active one, else the last that ended. Raises BenchfleetError
    where several are active."""
    going = [run for run in records if run.is_running]
    if len(going) > 1:
        lines = [f"  --pid {run.process.pid:<8} {run.campaign}, {run.label}" for run in going]
        raise BenchfleetError("\n".join(["several runs are active; choose one:", *lines]))
    ended = [run for run in records if run.process.lives() is not None]
    if not ended:
        raise BenchfleetError(nothing_runs(arguments, records))
    return going[0] if going else ended[0]
