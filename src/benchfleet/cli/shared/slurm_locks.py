"""Lets the nodes of a cluster share an SQLite ledger, where a test shows that they can."""

from __future__ import annotations

import sqlite3
import sys
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchfleet.cli.text.output import say
from benchfleet.cli.text.terminal import display_path
from benchfleet.errors import BenchfleetError, LedgerError
from benchfleet.ledger.sqlite import lock_test
from benchfleet.ledger.sqlite.shared_file import share
from benchfleet.slurm.commands import Slurm, SlurmAway
from benchfleet.slurm.script import PilotSpec, batch_script

_NODES = 2  # and this machine
_TESTS = 3  # at most, where one machine was done before another began
_LIMIT_MIN = 10
_POLL_S = 2.0
_REST_S = 60.0  # seconds in which this machine should end after the nodes
_TEST_S = 300.0  # seconds in which the nodes should end after this machine


def share_ledger(ledger: Path, spec: PilotSpec, template: str) -> None:
    """Test the locks of the ledger's folder between two nodes and this machine, as `spec` has its
    jobs, and keep the proof. Raises LedgerError where the file cannot be shared, or SlurmError.

    Waits for two nodes for as long as Slurm's queue takes. Others may test the folder meanwhile.
    """
    folder, own = ledger.resolve().parent, uuid.uuid4().hex[:8]
    file = folder / f".{ledger.name}.lock-test-{own}"
    say(
        f"testing whether two nodes and this machine can share an SQLite ledger in "
        f"{display_path(folder)}; waiting for the nodes (Ctrl-C ends the test)",
        to=sys.stderr,
        flush=True,
    )
    nodes = [f"--nodes={_NODES}", "--ntasks-per-node=1"]
    test = replace(
        spec,
        name=f"{spec.name}-locks-{own}",
        command=["srun", *spec.command, str(file)],
        time=str(_LIMIT_MIN),
        options=[*spec.options, *nodes],
    )
    for _ in range(_TESTS):
        faults, machines = _tested(test, template, file)
        if faults != [lock_test.NOT_AT_ONCE]:
            break
    if faults:
        raise LedgerError(
            f"{ledger} cannot be shared by the nodes of this cluster: {'; '.join(faults)} (logs: "
            f"{spec.logs}). Use PostgreSQL, or a git repository: --ledger git+file:/shared/lab.git"
        )
    share(ledger, machines)
    say(f"the test passed on {', '.join(machines)}", to=sys.stderr, flush=True)


def _tested(test: PilotSpec, template: str, file: Path) -> tuple[Sequence[str], Sequence[str]]:
    """What went wrong in a test in that file, and the machines that took part."""
    slurm = Slurm()
    lock_test.create(file, _NODES + 1)
    try:
        slurm.submit(batch_script(test, template), 1)
        return _faults(slurm, test.name, file), lock_test.machines_of(file)
    finally:
        with suppress(BenchfleetError):
            slurm.cancel(test.name, queued_only=False)
        for name in (file, file.with_name(f"{file.name}-journal")):
            name.unlink(missing_ok=True)


def _faults(slurm: Slurm, name: str, file: Path) -> Sequence[str]:
    """What went wrong in the test; nothing where it passed."""
    local = f"{lock_test.this_machine()} (here)"
    problem: list[str] = []

    def take_part() -> None:
        try:
            lock_test.take_part(file, local, seconds=float("inf"))
        except (LedgerError, sqlite3.Error, OSError) as error:
            problem.append(str(error))

    thread = threading.Thread(target=take_part, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_S)
        with suppress(SlurmAway):
            if not slurm.pilots(name):  # what is left to do here is quick, if a node came at all
                thread.join(_REST_S if len(lock_test.machines_of(file)) > 1 else 0)
                break
    if thread.is_alive():
        return ["the job of the test ended before all machines took part"]
    if problem:
        return problem
    if not lock_test.wait_for_others(file, seconds=_TEST_S):
        return ["a node did not end the test"]
    return lock_test.problems(file)
