"""``benchfleet stop``: ask runs of this machine to end as Ctrl-C does, and see that they do."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from benchfleet.cli.shared import local_runs, next_command
from benchfleet.cli.text.notices import as_of, counts_text
from benchfleet.cli.text.output import confirm, print_json, say
from benchfleet.cli.text.watch import watch
from benchfleet.domain.humanize import counted
from benchfleet.errors import BenchfleetError
from benchfleet.runner.progress import Notice, Progress
from benchfleet.runs.follow import follow, progress_of
from benchfleet.runs.process import is_suspended
from benchfleet.runs.registry import Record

_REPEAT_AFTER_S = 0.5  # seconds until it is asked again, where it is to end now


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    local_runs.configure(parser, example="benchfleet stop study.yaml")
    parser.add_argument(
        "--now", action="store_true", help="like Ctrl-C twice: do not wait for the current sample"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask before stopping several runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Ask each run to end, and show what it does until it has."""
    records = local_runs.runs(arguments)
    going = [run for run in records if run.is_running]
    if len(going) > 1 and not arguments.yes and not _agreed(going):
        print("nothing was stopped")
        return 1
    own = [run for run in going if not run.ends_on]
    if own:
        raise BenchfleetError(
            f"the run of {own[0].campaign} ({own[0].label}) is a call inside a program; "
            "stop it in that program"
        )
    stopping = [run for run in going if run.request_stop()]
    ended = [_see_it_end(run, arguments) for run in stopping]
    if arguments.json:
        payload = [{"campaign": run.campaign, "pid": run.process.pid} for run in ended]
        print_json({"stopped": payload})
        return 0
    for run in ended:
        at = (run.end or {}).get("counted_at")
        say(f"{run.campaign}: ended; {counts_text(progress_of(run))}{as_of(at)}")
        if (called := local_runs.command_arguments(run, arguments)) is not None:
            say(f"nothing is lost; continue with: {next_command.same_choice(called, 'run')}")
    if not stopping:
        say(local_runs.nothing_runs(arguments, records))
    return 0


def _see_it_end(run: Record, arguments: argparse.Namespace) -> Record:
    """Show the run until it ends; with --now, repeat the request until the run confirms it."""
    acknowledged, asked_at = 0, time.monotonic()
    if is_suspended(run.process.pid):
        say(f"{run.label}: it is suspended; resume it: kill -CONT {run.process.pid}")

    stream = sys.stderr if arguments.json else sys.stdout
    with watch(run.campaign, stream, as_json=False) as observer:

        def tell(notice: Notice, progress: Progress) -> None:
            nonlocal acknowledged
            if notice.kind == "interrupted":
                acknowledged = int(notice.data["times"])
            observer(notice, progress)

        for latest in follow(run, tell, earlier=0):
            run = latest
            late = time.monotonic() - asked_at > _REPEAT_AFTER_S
            if arguments.now and acknowledged < 2 and late and run.is_running:
                run.request_stop()
                asked_at = time.monotonic()
    return run


def _agreed(going: Sequence[Record]) -> bool:
    names = "\n".join(f"  {run.campaign} ({run.label})" for run in going)
    runs = counted(len(going), "run")
    otherwise = f"this would stop {runs}; add --yes, or select one with --pid N\n{names}"
    return confirm(f"{names}\nstop {runs}?", otherwise=otherwise)
