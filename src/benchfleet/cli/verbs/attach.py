"""``benchfleet attach``: see what a run does, from any shell; the run itself is left alone."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchfleet.cli.shared import local_runs
from benchfleet.cli.shared.options import opened
from benchfleet.cli.text.notices import as_of, counts_text
from benchfleet.cli.text.output import maybe_unread, print_json, say
from benchfleet.cli.text.terminal import display_path, printable
from benchfleet.cli.text.watch import watch
from benchfleet.errors import LedgerError
from benchfleet.results.layout import Layout
from benchfleet.runs.follow import follow, progress_of
from benchfleet.runs.registry import Record

_KILLED = "it ended without a report; it was probably killed"


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    local_runs.configure(parser, example="benchfleet attach study.yaml")
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Show the run until it ends, and end as it does; Ctrl-C leaves the view alone."""
    run = local_runs.single_run(arguments, local_runs.runs(arguments))
    if not run.is_running:
        return _ended(arguments, run)
    stream = sys.stderr if arguments.json else sys.stdout
    if run.metrics:
        say(f"metrics  {run.metrics}", to=sys.stderr)
    try:
        with watch(run.campaign, stream, as_json=arguments.log_json) as observer:
            for latest in follow(run, observer):
                run = latest
    except KeyboardInterrupt:
        command = local_runs.command_arguments(run, arguments) or arguments
        stop = (
            local_runs.command_text(command, "stop")
            if command.campaign
            else f"benchfleet stop {run.results}"
        )
        message = f"left the view; the run continues ({run.label}); stop it with: {stop}"
        print(
            f"\n{printable(message)}" if sys.stderr.isatty() else printable(message),
            file=sys.stderr,
        )
        return 128 + signal.SIGINT
    return _ended(arguments, run)


def _ended(arguments: argparse.Namespace, run: Record) -> int:
    """Say how it ended as itself does, and return its exit code."""
    command = local_runs.command_arguments(run, arguments)
    if run.end is None or "error" in run.end:
        say(f"benchfleet: {(run.end or {}).get('error', _KILLED)}", to=sys.stderr)
        if run.log:
            say(f"log      {display_path(Path(run.log))}", to=sys.stderr)
        return 1
    if command is None:
        return _from_record(arguments, run)
    try:
        return _concluded(command, run, run.end)
    except LedgerError as error:  # its password stood in the address, say, and is kept nowhere
        say(f"benchfleet: {error}", to=sys.stderr)
        return _from_record(arguments, run)


def _concluded(command: argparse.Namespace, run: Record, end_record: Mapping[str, Any]) -> int:
    from benchfleet.cli.text.run_summary import conclude  # the reports
    from benchfleet.runner.run_end import RunEnd

    study, cells = opened(command)
    study = replace(study, layout=Layout(run.results))
    by_fingerprint = {str(cell.fingerprint): cell for cell in cells}
    end = RunEnd(
        progress=progress_of(run),
        seconds=end_record["seconds"],
        ran=end_record["ran"],
        interrupted=end_record["interrupted"],
        broken=end_record["broken"],
        impossible=tuple(
            (by_fingerprint[f], why) for f, why in end_record["impossible"] if f in by_fingerprint
        ),
    )
    return conclude(command, study, cells, end)


def _from_record(arguments: argparse.Namespace, run: Record) -> int:
    """What is known of a run that was a call of the library, or whose ledger cannot be asked."""
    progress, end = progress_of(run), run.end or {}
    with maybe_unread():
        if arguments.json:
            print_json({"campaign": run.campaign, **progress.states})
        else:
            say(f"{run.campaign}: {counts_text(progress)}{as_of(end.get('counted_at'))}")
            say(f"results  {display_path(run.results)}")
    if end.get("interrupted"):
        return 128 + signal.SIGINT
    return 0 if progress.states.get("success", 0) == progress.total else 1
