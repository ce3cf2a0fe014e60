"""``benchfleet run``: run what is not done yet, show it, and end with what won."""

from __future__ import annotations

import argparse
import json
import signal
import sys

from benchfleet.cli import options
from benchfleet.cli.ending import compared, show_end, write_report
from benchfleet.cli.summary import summarised, write_summary
from benchfleet.cli.watch import watch
from benchfleet.runner.inbox import Interrupted, RealInbox
from benchfleet.wiring import choose_pool, run_cells


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4")
    options.choice(parser)
    parser.add_argument("--gpus", metavar="0,1", type=_ids, help="run on these GPUs")
    parser.add_argument(
        "--cpu-slots", metavar="N", type=options.count, help="run on N slots of the CPU"
    )
    parser.add_argument(
        "--max-concurrent-runs",
        metavar="N",
        type=options.count,
        help="slots over all devices; more than there are GPUs share them",
    )
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")


def main(arguments: argparse.Namespace) -> int:
    """Run the campaign's cells that are not done yet."""
    bench, cells = options.opened(arguments)
    asked = bench.campaign.machine
    pool = choose_pool(
        arguments.gpus or asked.gpus,
        arguments.cpu_slots or asked.cpu_slots,
        arguments.max_concurrent_runs or asked.max_concurrent_runs,
    )
    inbox = RealInbox()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: inbox.post(Interrupted(signal=signal.Signals(n).name)))
    stream = sys.stderr if arguments.json else sys.stdout
    with watch(bench.campaign.name, stream, as_json=arguments.log_json) as observer:
        end = run_cells(bench, cells, pool, inbox=inbox, observer=observer)
    records = bench.records(cells)
    summary = summarised(bench, records, end)
    comparison = compared(bench, cells, records)
    write_summary(bench, summary)
    write_report(bench, comparison)
    if arguments.json:
        print(json.dumps(summary, indent=2))
    else:
        show_end(bench, comparison, end)
    if end.interrupted:
        return 128 + signal.SIGINT
    return 0 if comparison.counts["success"] == comparison.counts["total"] else 1


def _ids(text: str) -> tuple[int, ...]:
    try:
        ids = tuple(int(part) for part in text.split(","))
    except ValueError:
        ids = (-1,)
    if min(ids) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of GPU ids; write 0,1")
    return ids
