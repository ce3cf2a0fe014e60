"""``--detach`` of ``run`` and ``work``: check , then go on without the terminal."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchfleet.cli.shared import next_command
from benchfleet.cli.shared.local_runs import command_text
from benchfleet.cli.shared.options import RequestedDevices
from benchfleet.cli.shared.run_fleet import run_fleet
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.domain.cell import Cell
from benchfleet.errors import BenchfleetError
from benchfleet.results.disk import make_folder
from benchfleet.runs import registry as records
from benchfleet.runs.live_state import DETACHED
from benchfleet.study import Study

_POLL_INTERVAL_S = 0.02  # seconds between looks whether it has begun
_START_TIMEOUT_S = 60.0  # seconds in which it should have; large campaigns take long to enroll
_SHELL_ONLY_OPTIONS = {"--detach", "--another", "--json"}


def detach(
    arguments: argparse.Namespace, study: Study, cells: Sequence[Cell], devices: RequestedDevices
) -> int:
    """Start the run in a new session, and print how to reach it."""
    if run_fleet(arguments, study, cells, devices) is None:
        return 1
    make_folder(study.layout.root)
    with records.one_at_a_time(study.layout):
        going = [run for run in records.runs_of(study.layout) if run.is_running]
        if going and not arguments.another:
            raise BenchfleetError(_already_running(arguments, study, going[0]))
        log = records.new_file(study.layout).with_suffix(".log")
        process = _begin(arguments, log)
        try:
            code = _until_it_runs(process, log)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)
            raise
    if code is not None:  # all that it had to say
        print(log.read_text("utf-8", "replace"), end="", file=sys.stderr if code > 1 else None)
        if not log.with_suffix(".json").exists():  # no run that anybody would look for
            log.unlink()
        return code
    record = records.read(log.with_suffix(".json"))
    metrics = {"metrics": record.metrics} if record and record.metrics else {}
    if arguments.json:
        payload = {"campaign": study.campaign.name, "pid": process.pid, "log": str(log), **metrics}
        print_json(payload)
        return 0
    say(f"{study.campaign.name}: is running in the background (pid {process.pid})")
    say(f"watch    {command_text(arguments, 'attach', study.layout.root)}")
    say(f"stop     {command_text(arguments, 'stop', study.layout.root)}")
    for address in metrics.values():
        print(f"metrics  {address}")
    say(f"log      {display_path(log)}")
    return 0


def own_command() -> list[str]:
    """The words that start this benchfleet, whatever the PATH says."""
    script = Path(sys.executable).with_name("benchfleet")
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", "benchfleet"]


def _begin(arguments: argparse.Namespace, log: Path) -> subprocess.Popen[bytes]:
    again = [word for word in arguments.words if word not in _SHELL_ONLY_OPTIONS]
    if arguments.rent and not arguments.yes:
        again.append("--yes")  # it was asked here
    # Ignored, it stays so in what is started: a shell that closes takes nothing along.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with open(log, "ab") as opened:
            return subprocess.Popen(
                [*own_command(), *again],
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=opened,
                start_new_session=True,
                env={**os.environ, DETACHED: str(log)},
            )
    finally:
        signal.signal(signal.SIGHUP, before)


def _until_it_runs(process: subprocess.Popen[bytes], log: Path) -> int | None:
    """Wait until the run has started; return its exit code if it ended instead."""
    until = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            return code if code >= 0 else 128 - code
        record = records.read(log.with_suffix(".json"))
        if record is not None and record.state:
            return None
        time.sleep(_POLL_INTERVAL_S)
    return None


def _already_running(arguments: argparse.Namespace, study: Study, run: records.Record) -> str:
    more = f"{next_command.same_choice(arguments, 'run')} --detach --another"
    return (
        f"a run of {study.campaign.name} is already running ({run.label}); nothing was started.\n"
        f"watch it: {command_text(arguments, 'attach', study.layout.root)}\n"
        f"start a second one that shares the work: {more}"
    )
