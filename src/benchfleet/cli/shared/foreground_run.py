"""A run from the command line: show it while it goes, and end with what won."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from benchfleet.cli.shared import options
from benchfleet.cli.shared.fleet import machines
from benchfleet.cli.shared.local_runs import command_of
from benchfleet.cli.shared.options import RequestedDevices
from benchfleet.cli.text.output import say
from benchfleet.cli.text.run_summary import compared, conclude, show_counts, write_report
from benchfleet.cli.text.watch import watch
from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerAway, LedgerError, LedgerTooNew
from benchfleet.git import process as git_process
from benchfleet.metrics.collect import Collector
from benchfleet.runner.events import EventQueue, Interrupted
from benchfleet.runner.loop import RunEnd
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.runs.live_state import announced, both
from benchfleet.study import Study
from benchfleet.summary import summarised, write_host_summary, write_summary
from benchfleet.wiring import run_cells


def run(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    devices: RequestedDevices,
    worker_options: WorkerOptions,
) -> int:
    """Run the cells that are not done yet, write what is to be kept, and return the exit code."""
    with _metered(arguments, study) as collector:
        return _run(arguments, study, cells, devices, collector, worker_options)


def _run(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    devices: RequestedDevices,
    collector: Collector | None,
    worker_options: WorkerOptions,
) -> int:
    fleet = machines(arguments, devices)
    inbox, serving = EventQueue(), threading.Event()
    stream = sys.stderr if arguments.json else sys.stdout
    metrics = collector.address if collector else ""
    with (
        _answering_signals(inbox, serving),
        announced(
            study, ends_on="SIGTERM", command=command_of(arguments, study), metrics=metrics
        ) as feed,
    ):
        with watch(study.campaign.name, stream, as_json=arguments.log_json) as observer:
            told = both(observer, feed)
            if collector is not None:
                told = both(told, collector)
            end = run_cells(
                study,
                cells,
                fleet,
                inbox=inbox,
                observer=told,
                options=worker_options,
                serving=serving,
            )
            serving.clear()
        try:
            _write_files(study, arguments, end)
        except (LedgerAway, LedgerTooNew) as error:  # of which more is said in the end
            why, then = "its ledger is away", "once it answers"
            if isinstance(error, LedgerTooNew):
                why = "a newer benchfleet brought its ledger up to date"
                then = "upgrade benchfleet, and"
            again = options.same_choice(arguments, "run")
            told_ = f"{why}: no summary, no report; {then} go on with: {again}"
            say(f"benchfleet: {told_}", to=sys.stderr)
        except (OSError, LedgerError) as error:
            print(f"benchfleet: summary and report could not be written: {error}", file=sys.stderr)
        feed.ended(end)
    try:
        return conclude(arguments, study, cells, end)
    except (LedgerAway, LedgerTooNew):
        show_counts(arguments, study, end)
        raise


@contextlib.contextmanager
def _metered(arguments: argparse.Namespace, study: Study) -> Iterator[Collector | None]:
    """What watches the run for Prometheus, where that is asked for."""
    port, file = arguments.metrics_port, arguments.metrics_file
    if port is None and file is None:
        yield None
        return
    from benchfleet.metrics.serve import served

    with served(study.campaign.name, port=port, file=file) as collector:
        yield collector


def _write_files(study: Study, arguments: argparse.Namespace, end: RunEnd) -> None:
    """Summary and report speak of the whole campaign, whatever part of it was run; a trial over
    a few samples is no part of it."""
    if arguments.limit is not None or (not end.ran and study.is_summary_current()):
        return
    told = study.mark_reported()
    if arguments.verb == "work":
        write_host_summary(study, end)
    cells = study.cells()
    records = study.records(cells)
    write_report(study, compared(study, cells, records))
    write_summary(study, {**summarised(study, cells, records, end), "told": told})


@contextlib.contextmanager
def _answering_signals(inbox: EventQueue, serving: threading.Event) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal reach the runner; where one is ignored (nohup) it
    stays so. Where it is not `serving`, nothing runs: who waits for a ledger's server gives up."""

    def heard(number: int, frame: FrameType | None) -> None:
        git_process.interrupt()
        inbox.post(Interrupted(signal=signal.Signals(number).name))
        if not serving.is_set():
            serving.set()  # nothing waits from now on
            raise KeyboardInterrupt

    git_process.interrupt(False)
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
