"""What one look of ``benchfleet slurm submit`` found, as text or JSON."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.cli.shared import next_command
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path, moment
from benchfleet.domain.humanize import counted, examples
from benchfleet.results.read import log_tail
from benchfleet.slurm.commands import Pilot, pilot_counts
from benchfleet.slurm.demand import Work
from benchfleet.study import Study

_MAX_REASON = 300  # characters of a pilot's log


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look at ledger and queue found and did."""

    work: Work
    pilots: Sequence[Pilot]  # before the submission
    submitted: int = 0
    job: str = ""
    paused_until: float = 0.0  # seconds since 1970


def tell(arguments: argparse.Namespace, study: Study, look: Look) -> None:
    """Print it."""
    queued, running, ending = pilot_counts(look.pilots, look.submitted)
    if arguments.json:
        print_json(
            {
                "campaign": study.campaign.name,
                "submitted": look.submitted,
                "job": look.job,
                "queued": queued,
                "running": running,
                "ending": ending,
                "waiting_cells": look.work.waiting,
                "failed_cells": look.work.failed,
                "too_long": list(look.work.too_long),
                "paused_until": look.paused_until,
            }
        )
        return
    say(text_of(arguments, study, look), flush=True)
    if look.submitted:
        say(f"logs     {display_path(study.layout.slurm)}/{look.job}_*.log", flush=True)
        say(f"watch    {next_command.same_choice(arguments, 'slurm status')}", flush=True)


def newest_reason(logs: Path) -> str:
    """What the newest log of a pilot says of cells that it could not run, or else its last line;
    ``""`` where there is none."""
    newest = max(logs.glob("*.log"), key=lambda log: log.stat().st_mtime, default=None)
    lines = [line.strip() for line in log_tail(newest).splitlines()] if newest else []
    reasons = [line for line in lines if line.startswith(("cannot run here: ", "ended early: "))]
    return next(iter(reasons), next(filter(None, reversed(lines)), ""))[:_MAX_REASON]


def text_of(arguments: argparse.Namespace, study: Study, look: Look) -> str:
    """``study: 12 cells wait · 4 pilots submitted as job 17 · 4 pilots queued, 0 running``"""
    work, too_long = look.work, len(look.work.too_long)
    waiting = work.waiting + too_long
    parts = [counted(waiting, "cell", "wait") if waiting else "no cell waits"]
    if look.submitted:
        parts.append(f"{counted(look.submitted, 'pilot')} submitted as job {look.job}")
    queued, running, ending = pilot_counts(look.pilots, look.submitted)
    parts.append(f"{counted(queued, 'pilot')} queued, {running} running")
    if ending:
        parts[-1] += f", {ending} ending"
    if look.paused_until:
        reason = newest_reason(study.layout.slurm)
        parts.append(
            "the last pilots ended no cell and recorded no new sample, see "
            f"{display_path(study.layout.slurm)}/*.log{reason and f' ({reason})'}; more are "
            f"submitted after {moment(look.paused_until)}, or at once with --now"
        )
    if too_long:
        cells = f"{counted(too_long, 'cell', 'need')} a longer --time"
        minutes = math.ceil(work.needed_s / 60)
        parts.append(f"{cells}: {examples(work.too_long)}; use --time {minutes} (minutes) or more")
    if work.failed:
        failures = next_command.same_choice(arguments, "failures")
        parts.append(f"{counted(work.failed, 'cell')} failed, see {failures}")
    return f"{study.campaign.name}: {' · '.join(parts)}"
