"""Eight workers on a remote that fails in every way that a short test can show."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.cell import Cell
from benchfleet.errors import GitAway, LedgerAway
from benchfleet.git import process
from git_workers import lines, published, rest, workers
from repositories import git

from .conftest import CELLS, ME, SUCCESS, opened

FAULT_S = float(os.environ.get("GIT_FAULT_SECONDS", "1"))
INTERVAL_S = 0.2  # between two pushes of a hosted remote, instead of ten
SEED = int(os.environ.get("GIT_FAULT_SEED", "1"))


@contextmanager
def hook(bare: Path, name: str, script: str) -> Iterator[None]:
    """Install a hook of the remote in this context, in place of another."""
    file = bare / "hooks" / name
    before = file.read_text() if file.exists() else "#!/bin/sh\n"
    for text in (f"#!/bin/sh\n{script}\n", before):
        draft = file.with_suffix(".draft")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.rename(file)
        if text != before:
            yield


@contextmanager
def away(bare: Path) -> Iterator[None]:
    """Move the remote away in this context."""
    elsewhere = bare.with_name("away.git")
    bare.rename(elsewhere)
    yield
    for lock in elsewhere.rglob("*.lock"):  # of a push that lost its folder just then
        lock.unlink()
    elsewhere.rename(bare)


FAULTS: dict[str, Callable[[Path], object]] = {
    "away": away,
    "slow": lambda bare: hook(bare, "pre-receive", "sleep 0.4"),
    "refuses": lambda bare: hook(bare, "pre-receive", "echo read-only now >&2; exit 1"),
    "full": lambda bare: hook(bare, "pre-receive", "echo No space left on device >&2; exit 1"),
    "drops the answer": lambda bare: hook(bare, "post-receive", "kill -9 $PPID"),
}


# Accepts six pushes in six intervals, as a hosting service does in a minute.
RATE_LIMIT = f"""
now=$(date +%s%N)
for push in pushes/*; do
  [ "${{push##*/}}" -gt $((now - {int(6e9 * INTERVAL_S)})) ] || rm -f "$push"
done
[ "$(ls pushes | wc -l)" -lt 6 ] || {{ echo too many pushes >&2; exit 1; }}
: > "pushes/$now"
"""


@pytest.mark.timeout(300 + 30 * FAULT_S)
def test_eight_workers_run_each_cell_once_on_a_failing_remote(bare: Path, tmp_path: Path) -> None:
    _run_workers(bare, tmp_path, CELLS[:70], slow=0.02)


@pytest.mark.timeout(300 + 30 * FAULT_S)
def test_eight_workers_run_each_cell_once_on_a_hosted_remote_that_fails(
    bare: Path, tmp_path: Path
) -> None:
    (bare / "pushes").mkdir()
    with hook(bare, "pre-receive", RATE_LIMIT):
        _run_workers(bare, tmp_path, CELLS[:40], interval=INTERVAL_S, lease=15)


def _run_workers(bare: Path, tmp_path: Path, cells: Sequence[Cell], **how: float) -> None:
    """Eight workers run the cells while all faults come one after the other; two are killed."""
    order = random.Random(SEED).sample(sorted(FAULTS), len(FAULTS))
    with closing(opened(bare, "first")) as ledger:
        ledger.enroll(cells)
    with workers(f"git+file://{bare}", tmp_path) as start:
        running = [start(f"worker-{number}", **how) for number in range(8)]
        printed = [lines(worker, 2 - bool(how.get("interval"))) for worker in running]
        for number, fault in enumerate(order):
            with FAULTS[fault](bare):  # type: ignore[attr-defined]
                time.sleep(FAULT_S)
                if number < 2:
                    running[number].kill()
        printed += [rest(worker) for worker in running]
        again = [start("worker-0", **how), start("worker-1", **how)]  # in the killed ones' folders
        printed += [rest(worker) for worker in again]
        assert [worker.returncode for worker in (*running[2:], *again)] == [0] * 8, order
    with closing(opened(bare, "last")) as ledger:
        outcomes = {record.fingerprint: record.outcome for record in ledger.cells()}
        finished = Counter(event.fingerprint for event in ledger.events(kinds=["finished"]))
        ledger.sync.complete_results()
    assert finished == {cell.fingerprint: 1 for cell in cells}
    promised = Counter(line for output in printed for line in output if len(line) == 64)
    assert set(promised.values()) == {1}
    assert published(bare) == {name: [o.digest] for name, o in outcomes.items() if o is not None}
    assert git(bare, "fsck", "--no-dangling", "--no-progress") == ""


def test_a_lock_file_that_a_killed_push_left_is_waited_for(bare: Path) -> None:
    with closing(opened(bare, timeout=60.0)) as ledger:
        ledger.enroll(CELLS[:1])
        (claim,) = ledger.claim(ME, [CELLS[0].fingerprint])
        lock = bare / f"{ledger.store.log}.lock"
        lock.touch()
        ending = threading.Thread(target=ledger.finish, args=(claim.lease, SUCCESS))
        ending.start()
        while "File exists" not in ledger.store.remote.refused:
            time.sleep(0.05)
        lock.unlink()
        ending.join()
        assert [record.state for record in ledger.cells()] == ["success"]


def test_a_runner_does_not_claim_a_cell_whose_outcome_waits(bare: Path) -> None:
    clock = [0.0]
    with closing(opened(bare, clock=lambda: clock[0], lease=60.0)) as ledger:
        ledger.enroll(CELLS[:1])
        (claim,) = ledger.claim(ME, [CELLS[0].fingerprint])
        with hook(bare, "pre-receive", "exit 1"):
            ledger.keep([(claim.lease, SUCCESS)])
            clock[0] = 61.0
            with pytest.raises(Exception, match="rejects the push"):
                ledger.reap()
        assert ledger.claim(RunnerId("other"), [CELLS[0].fingerprint]) == []
        ledger.resend()
        assert [record.state for record in ledger.cells()] == ["success"]


def test_commands_after_one_that_hung_get_little_time_once_interrupted(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "INTERRUPTED_TIMEOUT_S", 0.1)
    git = process.Git(bare)
    git.interrupt()
    with pytest.raises(GitAway):
        git.run("-c", "alias.hang=!exec sleep 600", "hang")
    monkeypatch.setattr(process, "INTERRUPTED_TIMEOUT_S", 600.0)
    monkeypatch.setattr(process, "HUNG_TIMEOUT_S", 0.0)
    with pytest.raises(GitAway):
        git.run("version")


def test_a_ledger_that_is_interrupted_gives_up_a_push_that_hangs(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "INTERRUPTED_TIMEOUT_S", 0.1)
    hanging = tmp_path / "hanging"
    with closing(opened(bare, timeout=600.0)) as ledger:
        ledger.enroll(CELLS[:1])
        (claim,) = ledger.claim(ME, [CELLS[0].fingerprint])
        hangs = hook(bare, "pre-receive", f"touch {hanging}; exec sleep 600")
        with hangs, ThreadPoolExecutor(1) as pool:
            ending = pool.submit(ledger.finish, claim.lease, SUCCESS)
            while not hanging.exists():
                time.sleep(0.02)
            ledger.interrupt()
            with pytest.raises(LedgerAway, match="has not ended in"):
                ending.result(timeout=60)
        assert ledger.outbox.fingerprints() == {CELLS[0].fingerprint}
    assert not process.is_interrupted()  # the next ledger of this process waits as usual
