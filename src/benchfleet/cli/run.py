"""``benchfleet run``: run what is not done yet, show it, and end with what won."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence

from benchfleet.bench import Bench
from benchfleet.cli import options
from benchfleet.cli.ending import compared, say_nothing_was_run, show_end, write_report
from benchfleet.cli.watch import watch
from benchfleet.domain.cell import Cell
from benchfleet.runner.inbox import Inbox, Interrupted, RealInbox
from benchfleet.runner.loop import RunEnd
from benchfleet.summary import summarised, write_summary
from benchfleet.wiring import choose_pool, run_cells


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    options.campaign(parser, example="benchfleet run study.yaml --gpus 0,1 --max-concurrent-runs 4")
    options.choice(parser)
    options.devices(parser)
    parser.add_argument("--log-json", action="store_true", help="show progress as JSON lines")


def main(arguments: argparse.Namespace) -> int:
    """Run the campaign's cells that are not done yet."""
    bench, cells = options.opened(arguments)
    pool = choose_pool(*options.asked_devices(arguments, bench.campaign))
    inbox = RealInbox()
    stream = sys.stderr if arguments.json else sys.stdout
    with (
        _answering_signals(inbox),
        watch(bench.campaign.name, stream, as_json=arguments.log_json) as observer,
    ):
        end = run_cells(bench, cells, pool, inbox=inbox, observer=observer)
    done = end.progress.states.get("success", 0) == end.progress.total
    if done and not end.ran and not arguments.json and _report_holds(bench):
        return _nothing_was_run(bench, cells, arguments)
    try:
        _write_files(bench, arguments, end)
    except OSError as error:
        print(f"benchfleet: summary and report could not be written: {error}", file=sys.stderr)
    records = bench.records(cells)
    gone = bench.gone(records)
    comparison = compared(bench, cells, records)
    with contextlib.suppress(OSError):  # nobody listens any more; the files and the code remain
        if arguments.json:
            print(json.dumps(summarised(bench, cells, records, end), indent=2), flush=True)
        else:
            show_end(arguments, bench, comparison, end, gone)
            sys.stdout.flush()
    if end.interrupted:
        return 128 + signal.SIGINT
    all_there = not gone and not bench.unpublished(records)
    complete = comparison.counts["success"] == comparison.counts["total"] and all_there
    return 0 if complete else 1


def _nothing_was_run(bench: Bench, cells: Sequence[Cell], arguments: argparse.Namespace) -> int:
    """Say so at once; the report of the run before still holds."""
    records = bench.records(cells)
    gone = bench.gone(records)
    with contextlib.suppress(OSError):
        say_nothing_was_run(arguments, bench, gone)
        sys.stdout.flush()
    return 1 if gone or bench.unpublished(records) else 0


def _report_holds(bench: Bench) -> bool:
    """Whether a report is there that was written after the campaign was last changed."""
    try:
        return bench.layout.report.stat().st_mtime > bench.campaign.file.stat().st_mtime
    except OSError:
        return False


def _write_files(bench: Bench, arguments: argparse.Namespace, end: RunEnd) -> None:
    """Summary and report speak of the whole campaign, whatever part of it was run; a trial over
    a few samples is no part of it."""
    if arguments.limit is not None:
        return
    cells = bench.campaign.matrix.expand()
    records = bench.records(cells)
    write_summary(bench, summarised(bench, cells, records, end))
    write_report(bench, compared(bench, cells, records))


@contextlib.contextmanager
def _answering_signals(inbox: Inbox) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal reach the runner; where one is ignored (nohup) it
    stays so."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(
                number, lambda n, _: inbox.post(Interrupted(signal=signal.Signals(n).name))
            )
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
