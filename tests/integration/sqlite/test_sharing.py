"""Whether machines can share a ledger's file: the lock test, and the proof that it leaves."""

from __future__ import annotations

import multiprocessing
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.errors import LedgerError, LedgerUnreachable
from benchfleet.ledger.sqlite import lock_test
from benchfleet.ledger.sqlite.ledger import SqliteLedger
from benchfleet.ledger.sqlite.shared_file import is_shared, proof_file, share
from benchfleet.testing.sample_cells import sample_cell

BOUND_S = 120.0
NFS = "server:/home {folder} nfs4 rw 0 0\n"


def faults_of(
    file: Path, *, vfs: str = "", machines: int = 3, seconds: float = BOUND_S
) -> list[str]:
    """What the test finds, with a process for each machine; `vfs`: how they reach the file."""
    lock_test.create(file, machines)
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=lock_test.take_part,
            args=(file, f"n{n}"),
            kwargs={"seconds": seconds, "vfs": vfs},
        )
        for n in range(machines)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(BOUND_S)
        process.kill()
    return lock_test.problems(file)


def faults_at_the_same_time(file: Path, machines: int) -> list[str]:
    """What the test finds, repeated where it asks for it: on a busy computer one process may do
    most of its additions before another gets a turn."""
    for _ in range(10):
        found = faults_of(file, machines=machines)
        if not any("repeat the test" in fault for fault in found):
            break
    return found


def test_machines_whose_locks_work_pass(tmp_path: Path) -> None:
    file = tmp_path / "test"
    assert faults_at_the_same_time(file, 3) == []
    assert lock_test.machines_of(file) == ["n0", "n1", "n2"]
    assert lock_test.wait_for_others(file, seconds=0)


def test_machines_that_do_not_see_each_others_locks_are_found_out(tmp_path: Path) -> None:
    faults = faults_of(tmp_path / "test", vfs="unix-none", seconds=5)
    assert any("were lost" in fault or "is damaged" in fault for fault in faults), faults


def test_clocks_that_differ_are_found_out(tmp_path: Path) -> None:
    file = tmp_path / "test"
    assert faults_at_the_same_time(file, 2) == []
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update addition set began = began + 60, ended = ended + 60"
                           " where machine = 'n1'")  # fmt: skip
    (fault,) = lock_test.problems(file)
    assert re.match(r"their clocks differ by (60|59\.\d|60\.\d) s", fault)


def test_machines_that_came_one_after_the_other_must_repeat_the_test(tmp_path: Path) -> None:
    file = tmp_path / "test"
    lock_test.create(file, 2)
    rounds = lock_test.ROUNDS
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("insert into machine values (?, 1)", [("n0",), ("n1",)])
        connection.execute("update counter set value = ?", (2 * rounds,))
        connection.executemany(
            "insert into addition values (?, ?, ?, ?)",
            [(n + 1, "n0" if n < rounds else "n1", n, n + 0.5) for n in range(2 * rounds)],
        )
    assert lock_test.problems(file) == [
        "the machines did not work at the same time; repeat the test"
    ]


def test_a_machine_that_does_not_come_ends_the_test(tmp_path: Path) -> None:
    lock_test.create(tmp_path / "test", 2)
    with pytest.raises(LedgerError, match="1 of 2 machines came"):
        lock_test.take_part(tmp_path / "test", "n1", seconds=0.2)
    assert "only n1 took part" in lock_test.problems(tmp_path / "test")


def test_a_network_file_system_is_used_only_with_a_proof_for_that_folder(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"

    def opened(path: Path) -> SqliteLedger:
        mounts = NFS.format(folder=path.parent)
        return SqliteLedger(path, campaign="study", mounts=lambda: mounts)

    with pytest.raises(LedgerUnreachable, match="benchfleet slurm submit"):
        opened(file)
    share(file, {"n1", "n2"})
    with closing(opened(file)) as ledger:
        ledger.enroll([sample_cell(1)])
        assert not file.with_name("ledger.db-wal").exists()
    copy = tmp_path / "copy"
    copy.mkdir()
    proof_file(file).rename(proof_file(copy / "ledger.db"))
    assert not is_shared(copy / "ledger.db")
    with pytest.raises(LedgerUnreachable, match="network file system"):
        opened(copy / "ledger.db")


def test_a_file_that_somebody_uses_is_not_shared_and_one_that_nobody_uses_loses_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "ledger.db"
    with closing(SqliteLedger(file, campaign="study")) as ledger:
        ledger.enroll([sample_cell(1)])
        with pytest.raises(LedgerUnreachable, match="end what uses it"):
            share(file, {"n1"})
        assert not is_shared(file)
        ledger.enroll([sample_cell(2)])
    share(file, {"n1"})
    with closing(SqliteLedger(file, campaign="study")) as ledger:
        assert len(list(ledger.cells())) == 2


def test_who_reads_a_shared_ledger_does_not_hold_up_who_writes(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    share(file, {"n1", "n2"})
    with closing(SqliteLedger(file, campaign="study", busy=0.5)) as ledger:
        ledger.enroll([sample_cell(n) for n in range(3)])
        for _ in ledger.cells():
            ledger.reap()
