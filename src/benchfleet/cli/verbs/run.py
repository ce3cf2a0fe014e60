"""``benchfleet run``: run what is not done yet; where that is nothing, say so at once."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from benchfleet.cli.shared import (
    checkpoint_watch,
    next_command,
    option_types,
    options,
    rent,
    worker_hours,
)
from benchfleet.cli.text.notices import LEVELS
from benchfleet.cli.text.output import maybe_unread, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted
from benchfleet.judgements import with_judgements
from benchfleet.result_locations import ResultLocator, deleted_notice, rerun_deleted
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.default_campaign(
        parser, example="benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4"
    )
    add_run_options(parser)
    worker_hours.configure_idle_exit(parser)
    options.detaching(parser)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What is run, where, and how it is shown."""
    options.choice(parser)
    options.devices(parser)
    options.placement(parser)
    options.gpu_checks(parser)
    options.machines(parser)
    rent.configure(parser)
    checkpoint_watch.configure(parser)
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")
    parser.add_argument(
        "--log-level",
        choices=tuple(LEVELS),
        default="info",
        help="the least serious events that are shown; debug: also each slot and attempt (info)",
    )
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        type=Path,
        help="also append the events to this file, each with its time and level",
    )
    parser.add_argument(
        "--summary-seconds",
        metavar="S",
        type=option_types.number(86_400, "number of seconds {}: use 1 to 86400"),
        default=30.0,
        help="without a terminal: at most S seconds of running samples without a line (30)",
    )
    parser.add_argument(
        "--metrics-port",
        metavar="N",
        type=_port,
        help="serve Prometheus metrics on this port of localhost; 0 picks a free one",
    )
    parser.add_argument(
        "--metrics-file",
        metavar="FILE",
        type=Path,
        help="write Prometheus metrics to this file, for node_exporter",
    )
    parser.add_argument(
        "--resume-from",
        metavar="PATH",
        type=Path,
        help="start from the samples of the same cells in another results folder, or from a "
        "checkpoint file: its execution_summary.json, or the samples.jsonl of a cell",
    )


_ENDED = (0, 1)  # codes of runs that nobody stopped


def main(arguments: argparse.Namespace) -> int:
    """Run the campaign's cells that are not done yet."""
    checkpoint_watch.check(arguments)
    study, cells = checkpoint_watch.opened(arguments)
    cells = allowed_here(arguments, study, cells)
    devices = options.requested_devices(arguments, study.campaign)
    quiet = arguments.json or arguments.log_json or arguments.watch
    if deleted := rerun_deleted(study, study.records(cells)):
        say(deleted_notice(deleted), to=beside(arguments))
    if not quiet and study.is_summary_current() and not ResultLocator(study).has_unsent():
        records = study.finished_records(cells)
        if records is not None and _passed_all_gates(study):
            rent.show_orphans(arguments, study)
            return _nothing_was_run(arguments, study, records)
    if not arguments.rent:
        rent.show_orphans(arguments, study)
    code = begin(arguments, study, cells, devices)
    return run_judges(code, arguments, study, cells, devices)


def begin(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    devices: options.RequestedDevices,
    worker_options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
) -> int:
    """Run these cells, here or in the background."""
    if arguments.campaign is not None:
        from benchfleet.planner.matrix_warnings import matrix_warnings
        from benchfleet.planner.replaced_record import replaced_record_warnings
        from benchfleet.planner.reruns import find_reruns  # not of a run with nothing to do

        warnings = [*matrix_warnings(cells), *replaced_record_warnings(study)]
        say(*map(str, find_reruns(study, cells)), *warnings, to=beside(arguments))
    if arguments.detach:
        from benchfleet.cli.shared.detach import detach

        return detach(arguments, study, cells, devices)
    if arguments.resume_from is not None:
        _resume_from(arguments, study, cells)
    from benchfleet.cli.shared.foreground_run import run  # the runner, its slots and the reports

    return run(arguments, study, cells, devices, worker_options)


def run_judges(
    code: int,
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    devices: options.RequestedDevices,
    worker_options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
) -> int:
    """Run the judges of the answers that a run of these cells published; `code` is its exit code.
    Returns that of all."""
    if code in _ENDED and len(judged := with_judgements(study, cells)) > len(cells):
        return begin(arguments, study, judged, devices, worker_options)
    return code


def allowed_here(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that the campaign allows on this host; prints how many it excludes."""
    allowed = study.allowed_here(cells)
    if excluded_count := len(cells) - len(allowed):
        cells_left = counted(excluded_count, "cell")
        note = f"left for others: {cells_left}; 'runners' excludes {study.host}"
        say(note, to=beside(arguments))
    return allowed


def beside(arguments: argparse.Namespace) -> TextIO:
    """Where remarks go: not among JSON."""
    return sys.stderr if arguments.json or arguments.log_json else sys.stdout


def _passed_all_gates(study: Study) -> bool:
    gates = study.gates()
    return all(
        phase.name in gates and gates[phase.name].state == "opened"
        for phase in study.campaign.phases
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**16:
        raise argparse.ArgumentTypeError(f"invalid port {text!r}: use 0 to 65535")
    return int(text)


def _resume_from(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> None:
    """Take over samples for the cells that are not done, and say of how many."""
    from benchfleet.results.import_samples import import_samples

    done = {record.fingerprint for record in study.records(cells) if record.state == "success"}
    unfinished = {str(cell.fingerprint) for cell in cells if cell.fingerprint not in done}
    imported = import_samples(arguments.resume_from, study.layout, study.campaign.name, unfinished)
    counts = f"{counted(imported.samples, 'sample')} of {counted(imported.cells, 'cell')}"
    stream = beside(arguments)
    with contextlib.suppress(OSError):  # the reader is gone
        print(f"imported {counts} from {display_path(arguments.resume_from)}", file=stream)
        for reason in imported.left_out:
            say(f"left out: {reason}", to=stream)


def _nothing_was_run(
    arguments: argparse.Namespace, study: Study, records: Sequence[CellRecord]
) -> int:
    """Say that every cell is done already, where the report is, and what is missing of it."""
    name, count = study.campaign.name, len(records)
    missing = ResultLocator(study).missing(records)
    lines = [f"{name}: all cells are done; nothing was run"]
    if not sys.stdout.isatty():  # as every run begins that is not watched
        lines.insert(0, f"{name}: {counted(count, 'cell')} · {count} done ({count} reused)")
    lines += [f"done, but its result is missing: {record.path}" for record in missing]
    if missing:
        again = f"{next_command.same_choice(arguments, 'retry')} --gone"
        lines.append(f"run them again: {again} && {next_command.same_choice(arguments, 'run')}")
    lines.append(f"look at it with: {next_command.same_choice(arguments, 'report')}")
    lines.append(f"report   {display_path(study.layout.report)}")
    with maybe_unread():
        say(*lines)
    if study.campaign.notify is not None:
        from benchfleet.notifications.undelivered import send_undelivered

        send_undelivered(study, lambda message: say(f"warning: {message}", to=sys.stderr))
    return 1 if missing else 0
