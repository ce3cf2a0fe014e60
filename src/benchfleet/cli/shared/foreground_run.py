"""A run from the command line: show it while it goes, and end with what won."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType

from benchfleet.campaign_results import comparison_of
from benchfleet.cli.shared import next_command, rent
from benchfleet.cli.shared.benchmark_report import write_benchmark_report
from benchfleet.cli.shared.checkpoint_watch import watching
from benchfleet.cli.shared.local_runs import command_of
from benchfleet.cli.shared.options import RequestedDevices
from benchfleet.cli.shared.race_watch import racing
from benchfleet.cli.shared.ray_job import refuse_job_folder
from benchfleet.cli.shared.run_fleet import run_fleet
from benchfleet.cli.text.notices import LEVELS
from benchfleet.cli.text.output import say
from benchfleet.cli.text.run_summary import conclude, show_counts, write_report
from benchfleet.cli.text.watch import watch
from benchfleet.domain.cell import Cell
from benchfleet.errors import LedgerAway, LedgerError, LedgerTooNew
from benchfleet.fleet import Fleet
from benchfleet.git import process as git_process
from benchfleet.metrics.collect import Collector
from benchfleet.notifications.notifier import Notifier, notifying
from benchfleet.runner.events import EventQueue, Interrupted, ThreadWarning
from benchfleet.runner.run_end import RunEnd
from benchfleet.runner.worker_options import WorkerOptions
from benchfleet.runs.live_state import combine, registered_run
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
    refuse_job_folder(study)
    release = next_command.same_choice(arguments, "release")
    worker_options = replace(worker_options, release_command=release)
    if arguments.split is not None:
        cells = [replace(cell, split=arguments.split) for cell in cells]
    chosen = run_fleet(arguments, study, cells, devices)
    if chosen is None:
        return 1
    study, fleet = chosen
    try:
        code = _run_on(fleet, arguments, study, cells, collector, worker_options)
    finally:  # last, and however the run ended: this costs money
        remaining = rent.show_remaining(arguments, fleet.rent)
    return code or remaining


def _run_on(
    fleet: Fleet,
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    collector: Collector | None,
    worker_options: WorkerOptions,
) -> int:
    inbox, serving = EventQueue(), threading.Event()
    stream = sys.stderr if arguments.json else sys.stdout
    metrics = collector.address if collector else ""
    with (
        handle_signals(inbox, serving),
        registered_run(
            study, ends_on="SIGTERM", command=command_of(arguments, study), metrics=metrics
        ) as feed,
        _notifying(arguments, study, cells, inbox, serving) as notifier,
        watching(
            arguments,
            study,
            cells,
            lambda message: inbox.post(ThreadWarning(message=message)),
        ) as checkpoints,
        racing(
            arguments, study, lambda message: inbox.post(ThreadWarning(message=message))
        ) as race,
    ):
        with watch(
            study.campaign.name,
            stream,
            as_json=arguments.log_json,
            summary_s=arguments.summary_seconds,
            level=LEVELS[arguments.log_level],
            log_file=arguments.log_file,
        ) as observer:
            combined = combine(observer, feed)
            if notifier is not None:
                combined = combine(combined, notifier)
            if collector is not None:
                combined = combine(combined, collector)
            if race is not None:
                combined = combine(combined, race)
            end = run_cells(
                study,
                cells,
                fleet,
                inbox=inbox,
                observer=combined,
                options=checkpoints.worker_options(worker_options)
                if checkpoints
                else worker_options,
                serving=serving,
            )
            serving.clear()
        if race is not None:
            race.close()
        if checkpoints:
            study, cells = checkpoints.study, checkpoints.cells
        try:
            if end.ledger_away:  # writing there would wait again
                raise LedgerAway(end.broken)
            _write_files(study, arguments, end)
        except (LedgerAway, LedgerTooNew) as error:  # reported again at the end
            why, then = "the ledger does not answer", "once it answers"
            if isinstance(error, LedgerTooNew):
                why = "a newer benchfleet upgraded the ledger"
                then = "upgrade benchfleet, and"
            again = next_command.same_choice(arguments, "run")
            message = f"{why}: no summary and no report written; {then} continue with: {again}"
            say(f"benchfleet: {message}", to=sys.stderr)
        except (OSError, LedgerError) as error:
            print(f"benchfleet: summary and report could not be written: {error}", file=sys.stderr)
        feed.ended(end)
    try:
        if end.ledger_away:
            raise LedgerAway(end.broken)
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
    from benchfleet.metrics.serve import serve_metrics

    with serve_metrics(study.campaign.name, port=port, file=file) as collector:
        yield collector


def _notifying(
    arguments: argparse.Namespace,
    study: Study,
    cells: Sequence[Cell],
    inbox: EventQueue,
    serving: threading.Event,
) -> contextlib.AbstractContextManager[Notifier | None]:
    """What sends the messages of a campaign."""

    def warn(message: str) -> None:
        if serving.is_set():
            inbox.post(ThreadWarning(message=message))
        else:  # nobody reads the inbox any more
            say(f"warning: {message}", to=sys.stderr, flush=True)

    trial = cells if arguments.limit is not None else None
    return notifying(study, warn, cells=trial, is_worker=arguments.verb == "work")


def _write_files(study: Study, arguments: argparse.Namespace, end: RunEnd) -> None:
    """Write summary and report of the whole campaign, whatever part ran. A trial with --limit is
    not part of it."""
    if arguments.limit is not None or (not end.ran and study.is_summary_current()):
        return
    combined = study.mark_reported()
    if arguments.verb == "work":
        write_host_summary(study, end)
    cells = study.cells()
    records = study.records(cells)
    write_report(study, comparison_of(study, cells, records))
    write_benchmark_report(study, cells)
    write_summary(study, {**summarised(study, cells, records, end), "last_event": combined})


@contextlib.contextmanager
def handle_signals(inbox: EventQueue, serving: threading.Event) -> Iterator[None]:
    """Send Ctrl-C, SIGTERM, a closed terminal, and a batch system's SIGUSR1 to the runner; an
    ignored signal (nohup) stays ignored. Without `serving` nothing runs, and waiting for a ledger's
    server ends."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        git_process.interrupt()
        inbox.post(Interrupted(signal=signal.Signals(number).name))
        if not serving.is_set():
            serving.set()  # nothing waits from now on
            raise KeyboardInterrupt

    git_process.interrupt(False)
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
