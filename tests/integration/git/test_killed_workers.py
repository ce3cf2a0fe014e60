"""Workers that share a ledger in git and are killed, stopped, cut off and refused."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from git_workers import lines, published, rest, workers
from repositories import git

from .conftest import CELLS, opened


@pytest.fixture
def start(bare: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts workers, and ends what is left of them."""
    with workers(f"git+file://{bare}", tmp_path) as start:
        yield start


def test_workers_that_are_killed_stopped_cut_off_and_refused_run_each_cell_once(
    bare: Path, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    with closing(opened(bare, "first")) as ledger:
        assert ledger.enroll(CELLS) == len(CELLS)
    killed = [start("killed-1"), start("killed-2", batch=5)]
    stopped = start("stopped", batch=4)
    ahead = start("ahead", hours=1, batch=2)
    workers = [start("steady-1"), start("steady-2", batch=1), start("steady-3", slow=0.05)]
    output = [lines(worker, 1 + 8 * place) for place, worker in enumerate(killed, start=1)]
    for worker in killed:
        worker.send_signal(signal.SIGKILL)
    output += [rest(worker) for worker in killed]
    output.append(lines(stopped, 6))
    stopped.send_signal(signal.SIGSTOP)
    since = time.monotonic()
    workers.append(start("killed-1"))  # again, in its folder
    lines(workers[-1], 1)
    lines(ahead, 8)
    bare.rename(tmp_path / "away.git")
    time.sleep(2.0)
    for left in (tmp_path / "away.git").rglob("*.lock"):  # of a push that lost its folder just then
        left.unlink()
    (tmp_path / "away.git").rename(bare)
    hook = bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not now >&2\nexit 1\n")
    hook.chmod(0o755)
    time.sleep(1.5)
    hook.unlink()
    time.sleep(max(0.0, 7.5 - (time.monotonic() - since)))  # more than a lease
    with closing(opened(bare, "first", lease=6.0)):
        pass
    stopped.send_signal(signal.SIGCONT)
    output += [rest(worker) for worker in (stopped, ahead, *workers)]
    assert all(worker.returncode == 0 for worker in (stopped, ahead, *workers))
    with closing(opened(bare, "last")) as ledger:
        records = {record.fingerprint: record for record in ledger.cells()}
        assert [record.state for record in records.values()] == ["success"] * len(CELLS)
        finished = Counter(e.fingerprint for e in ledger.events(kinds=["finished"]))
        assert finished == {cell.fingerprint: 1 for cell in CELLS}
        ledger.sync.complete_results()  # as a merge does: the remote was taken away in between
    promised = Counter(line for printed in output for line in printed if len(line) == 64)
    assert set(promised) <= set(finished)
    assert set(promised.values()) == {1}
    assert published(bare) == {
        fingerprint: [record.outcome.digest]
        for fingerprint, record in records.items()
        if record.outcome
    }
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""
    reads_well(bare)


@pytest.mark.parametrize("name", ["pre-receive", "post-receive"])
def test_a_worker_that_is_killed_while_its_push_is_taken_in_leaves_all_of_it_or_nothing(
    bare: Path, tmp_path: Path, start: Callable[..., subprocess.Popen[str]], name: str
) -> None:
    with closing(opened(bare, "first")) as ledger:
        ledger.enroll(CELLS[:12])
    killed = start("killed", slow=0.1)
    output = [lines(killed, 3)]
    pid = tmp_path / "pid"
    hook = bare / "hooks" / name
    hook.write_text(f"#!/bin/sh\nmv {pid} {pid}.used && kill -9 $(cat {pid}.used)\nexit 0\n")
    hook.chmod(0o755)
    (tmp_path / "written").write_text(str(killed.pid))
    (tmp_path / "written").rename(pid)
    output.append(rest(killed))
    assert killed.returncode == -signal.SIGKILL
    other = start("other", lease=1)
    output.append(rest(other))
    assert other.returncode == 0
    with closing(opened(bare, "last")) as ledger:
        finished = Counter(e.fingerprint for e in ledger.events(kinds=["finished"]))
        outcomes = {record.fingerprint: record.outcome for record in ledger.cells()}
    assert finished == {cell.fingerprint: 1 for cell in CELLS[:12]}
    promised = Counter(line for printed in output for line in printed if len(line) == 64)
    assert set(promised.values()) == {1}
    assert published(bare) == {name: [o.digest] for name, o in outcomes.items() if o is not None}
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""


def reads_well(bare: Path) -> None:
    """The log of the ledger says what happened, as people would have said it."""
    output = git(bare, "log", "--format=%s", "--glob=refs/benchfleet/study/log").splitlines()
    verbs = Counter(line.split()[0] for line in output)
    assert set(verbs) <= {"claim", "finish", "reap"}
    assert verbs["finish"] == len(CELLS)
    branches = git(bare, "log", "--format=%s", "--glob=refs/heads/machine").splitlines()
    entries = {f"finish {cell.workload.label}_{cell.model.name}_dense_0" for cell in CELLS}
    assert sorted(branches) == sorted(entries)
