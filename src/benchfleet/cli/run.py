"""``benchfleet run``: run what is not done yet; where that is nothing, say so at once."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from benchfleet.bench import Bench
from benchfleet.cli import options
from benchfleet.cli.words import printable, shown_path
from benchfleet.domain.attempt import CellRecord


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4")
    options.choice(parser)
    options.devices(parser)
    options.machines(parser)
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")


def main(arguments: argparse.Namespace) -> int:
    """Run the campaign's cells that are not done yet."""
    bench, cells = options.opened(arguments)
    devices = options.asked_devices(arguments, bench.campaign)
    if not (arguments.json or arguments.log_json) and _report_holds(bench):
        records = bench.finished(cells)
        if records is not None:
            return _nothing_was_run(arguments, bench, records)
    from benchfleet.cli.running import run  # the runner, its slots and the reports

    return run(arguments, bench, cells, devices)


def _report_holds(bench: Bench) -> bool:
    """Whether a report is there that was written after the campaign was last changed."""
    try:
        return bench.layout.report.stat().st_mtime > bench.campaign.file.stat().st_mtime
    except OSError:
        return False


def _nothing_was_run(
    arguments: argparse.Namespace, bench: Bench, records: Sequence[CellRecord]
) -> int:
    """Say that every cell is done already, where the report is, and what is missing of it."""
    name, count = bench.campaign.name, len(records)
    gone = bench.gone(records)
    lines = [f"{name}: every cell is done already; nothing was run"]
    if not sys.stdout.isatty():  # as every run begins that is not watched
        lines.insert(0, f"{name}: {count} cells · {count} done ({count} reused)")
    lines += [f"done, but its results are not there: {record.path}" for record in gone]
    if gone:
        again = f"{options.same_choice(arguments, 'retry')} --gone"
        lines.append(f"run those again: {again} && {options.same_choice(arguments, 'run')}")
    lines.append(f"look at it with: {options.same_choice(arguments, 'report')}")
    lines.append(f"report   {shown_path(bench.layout.report)}")
    with contextlib.suppress(OSError):  # nobody listens any more; the code remains
        for line in lines:
            print(printable(line))
        sys.stdout.flush()
    return 1 if gone else 0
