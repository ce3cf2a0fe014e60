"""Processes that share a ledger and are killed in the middle of what they do."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from states import states

from .conftest import CELLS, open_ledger

WORKER = """
import sys, uuid
from pathlib import Path
from benchfleet.domain.attempt import Outcome
from benchfleet.errors import ClaimLost
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing.claims import claim_any

ledger = SqliteLedger(Path(sys.argv[1]), campaign="study")
runner = str(uuid.uuid4())
while claims := claim_any(ledger, runner, int(sys.argv[2])):
    for claim in claims:
        try:
            ledger.finish(claim.lease, Outcome(state="success", digest=runner))
        except ClaimLost:
            print("lost", flush=True)
        else:
            print(claim.lease.fingerprint, flush=True)
print("nothing left", flush=True)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python programs, and ends what is left of them."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def kill_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """Read that many lines, kill -9 in the middle of whatever comes then, and read the rest."""
    assert process.stdout is not None
    output = [process.stdout.readline().strip() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    # A line that the kill cut in two is not a promise.
    rest = process.stdout.read()
    output += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    return [line.strip() for line in output]


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("pragma integrity_check").fetchone() == ("ok",))


def test_processes_that_are_killed_lose_no_cell_and_run_none_twice(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        assert ledger.enroll(CELLS) == len(CELLS)
    victims = [start(WORKER, path, 3) for _ in range(3)]
    survivor = start(WORKER, path, 1)
    output = [kill_after(victim, lines) for victim, lines in zip(victims, (5, 20, 40), strict=True)]
    # Another host, whose clock is an hour ahead, reaps even what the survivor holds.
    with closing(open_ledger(path, clock=lambda: time.time() + 3600)) as ahead:
        ahead.reap()
        output.append(survivor.communicate(timeout=120)[0].split("\n"))
        ahead.reap()
    output.append(start(WORKER, path, 3).communicate(timeout=120)[0].split("\n"))
    with closing(open_ledger(path)) as ledger:
        assert states(ledger) == {"success": len(CELLS)}
        finished = Counter(e.fingerprint for e in ledger.events() if e.kind == "finished")
        assert finished == {cell.fingerprint: 1 for cell in CELLS}
    promised = Counter(line for lines in output for line in lines if len(line) == 64)
    assert set(promised) <= set(finished)
    assert set(promised.values()) == {1}
    assert sound(path)


def test_a_kill_in_the_middle_of_commits_neither_damages_nor_forgets(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        ledger.enroll(CELLS)
    promised: set[str] = set()
    for round in range(8):
        output = kill_after(start(WORKER, path, 1 + round % 3), 3 + 5 * round)
        promised.update(output)
        with closing(open_ledger(path)) as ledger:
            done = {record.fingerprint for record in ledger.cells(states=["success"])}
            assert promised <= done
            assert len(done) - len(promised) <= round + 1  # committed, but killed before it said so
            running = list(ledger.cells(states=["running"]))
            assert len(running) <= 3 * (round + 1)
        assert sound(path)


def test_processes_that_open_and_enroll_at_once_make_one_ledger(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    program = """
import sys
from pathlib import Path
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.testing.sample_cells import sample_cell
print("ready", flush=True)
sys.stdin.readline()
ledger = SqliteLedger(Path(sys.argv[1]), campaign="study")
print(ledger.enroll([sample_cell(number) for number in range(50)]))
"""
    path = tmp_path / "deep" / "down" / "ledger.db"
    command = [sys.executable, "-c", program, str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    new = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(new) == [0, 0, 0, 50]
    assert {file.name for file in path.parent.iterdir()} <= {
        "ledger.db",
        "ledger.db-wal",
        "ledger.db-shm",
    }
