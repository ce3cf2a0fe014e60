"""``benchfleet run``: run what is not done yet; where that is nothing, say so at once."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

from benchfleet.cli.shared import options
from benchfleet.cli.text.output import say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.result_locations import ResultLocator
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.study import Study

_EXAMPLES = 3  # names in a notice


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4")
    course(parser)
    options.detaching(parser)


def course(parser: argparse.ArgumentParser) -> None:
    """What is run, where, and how it is shown."""
    options.choice(parser)
    options.devices(parser)
    options.placement(parser)
    options.gpu_checks(parser)
    options.machines(parser)
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")
    parser.add_argument(
        "--metrics-port",
        metavar="N",
        type=_port,
        help="serve metrics for Prometheus at this port of this machine alone; 0 takes a free one",
    )
    parser.add_argument(
        "--metrics-file",
        metavar="FILE",
        type=Path,
        help="keep metrics for Prometheus in this file, as its node_exporter reads them",
    )
    parser.add_argument(
        "--resume-from",
        metavar="DIR",
        type=Path,
        help="take over the samples that another results folder holds of the same cells",
    )


def main(arguments: argparse.Namespace) -> int:
    """Run the campaign's cells that are not done yet."""
    study, cells = options.opened(arguments)
    cells = allowed_here(arguments, study, cells)
    devices = options.requested_devices(arguments, study.campaign)
    quiet = arguments.json or arguments.log_json
    _rerun_deleted(arguments, study, cells)
    if not quiet and study.is_summary_current() and not ResultLocator(study).unsent():
        records = study.finished_records(cells)
        if records is not None and _passed_all_gates(study):
            return _nothing_was_run(arguments, study, records)
    return begin(arguments, study, cells, devices)


def _rerun_deleted(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> None:
    """Put cells back to pending whose result folders were deleted here, and print which."""
    deleted = ResultLocator(study).deleted(study.records(cells))
    if not deleted or (ledger := study.open_existing_ledger()) is None:
        return
    with closing(ledger):
        for record in deleted:
            ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    examples = ", ".join(record.path for record in deleted[:_EXAMPLES])
    more = f" and {len(deleted) - _EXAMPLES} more" if len(deleted) > _EXAMPLES else ""
    results = f"{counted(len(deleted), 'result')} {'was' if len(deleted) == 1 else 'were'}"
    notice = f"{results} deleted here and will be computed again: {examples}{more}"
    say(notice, to=beside(arguments))


def begin(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    devices: options.RequestedDevices,
    worker_options: WorkerOptions = WorkerOptions(),  # noqa: B008 - frozen
) -> int:
    """Run these cells, here or in the background."""
    if arguments.detach:
        from benchfleet.cli.shared.detach import detach

        return detach(arguments, study, devices)
    if arguments.resume_from is not None:
        _resume_from(arguments, study, cells)
    from benchfleet.cli.shared.foreground_run import run  # the runner, its slots and the reports

    return run(arguments, study, cells, devices, worker_options)


def allowed_here(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that the campaign lets this host run; the others are told of."""
    allowed = study.allowed_here(cells)
    if left := len(cells) - len(allowed):
        cells_left = counted(left, "cell")
        said = f"left for others: {cells_left}, which 'runners' does not let {study.host} run"
        say(said, to=beside(arguments))
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
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number below 65536")
    return int(text)


def _resume_from(arguments: argparse.Namespace, study: Study, cells: Sequence[Cell]) -> None:
    """Take over samples for the cells that are not done, and say of how many."""
    from benchfleet.results.import_samples import import_samples

    done = {record.fingerprint for record in study.records(cells) if record.state == "success"}
    wanted = {str(cell.fingerprint) for cell in cells if cell.fingerprint not in done}
    taken = import_samples(arguments.resume_from, study.layout, study.campaign.name, wanted)
    counts = f"{counted(taken.samples, 'sample')} of {counted(taken.cells, 'cell')}"
    stream = beside(arguments)
    with contextlib.suppress(OSError):  # nobody listens any more
        print(f"took over {counts} from {display_path(arguments.resume_from)}", file=stream)
        for said in taken.left_out:
            say(f"left out: {said}", to=stream)


def _nothing_was_run(
    arguments: argparse.Namespace, study: Study, records: Sequence[CellRecord]
) -> int:
    """Say that every cell is done already, where the report is, and what is missing of it."""
    name, count = study.campaign.name, len(records)
    gone = ResultLocator(study).gone(records)
    lines = [f"{name}: every cell is done already; nothing was run"]
    if not sys.stdout.isatty():  # as every run begins that is not watched
        lines.insert(0, f"{name}: {counted(count, 'cell')} · {count} done ({count} reused)")
    lines += [f"done, but its results are not there: {record.path}" for record in gone]
    if gone:
        again = f"{options.same_choice(arguments, 'retry')} --gone"
        lines.append(f"run those again: {again} && {options.same_choice(arguments, 'run')}")
    lines.append(f"look at it with: {options.same_choice(arguments, 'report')}")
    lines.append(f"report   {display_path(study.layout.report)}")
    with contextlib.suppress(OSError):  # nobody listens any more; the code remains
        say(*lines)
        sys.stdout.flush()
    return 1 if gone else 0
