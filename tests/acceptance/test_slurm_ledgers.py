"""The ledger that pilots share: one name for it, no other beside it, and a test of its locks."""

from __future__ import annotations

import pytest

from fake_slurm import FakeSlurm

from .conftest import User, until
from .slurm_queue import AT, TIME, empty_queue

SLEEPING = """\
campaign: study
matrix:
  models: [{name: m1, adapter: none}]
  configs: {dense: null}
  benchmarks: [command: {name: sleeps, argv: [sleep, "600"]}]
"""


@pytest.fixture
def slurm(user: User, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """An empty queue, and a campaign of ten cells."""
    return empty_queue(user, monkeypatch)


def test_one_repository_has_the_same_pilots_however_its_address_is_spelled(
    user: User, slurm: FakeSlurm
) -> None:
    names = user.folder / "names"
    (user.folder / "link").symlink_to(user.folder)
    folder, where = User(user.folder / "names"), ("--results", str(user.results))
    names.mkdir()
    words = (str(user.folder / "study.yaml"), *where)
    limits = (*TIME, "--work=--cpu-slots 1", "--workers", "2")
    user.run("slurm", "submit", *words, "--ledger", "git+file:lab.git", *limits)
    for url in (
        "git+file:../lab.git",
        "git+file:./../names/../lab.git?large=1MB",
        f"git+file:{user.folder}/lab.git",
        f"git+file://{user.folder}/link/lab.git/",
        f"git+file://localhost{user.folder}/lab.git",
    ):
        at = (*words, "--ledger", url)
        assert len(folder.json("slurm", "status", *at)["pilots"]) == 2
        assert folder.json("slurm", "submit", *at, *limits)["submitted"] == 0
    assert len(folder.json("slurm", "cancel", *at, "--yes")["cancelled"]) == 2


def test_an_sqlite_ledger_is_refused_where_the_test_of_its_locks_has_no_result(
    user: User, slurm: FakeSlurm
) -> None:
    process = user.start("slurm", "submit", "study.yaml", *TIME, "--workers", "2")
    until(slurm.jobs)
    assert "#SBATCH --nodes=2" in slurm.script
    assert "exec srun " in slurm.script
    slurm.become("GONE")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the job of the test ended before all machines took part" in err
    assert "--ledger git+file:/shared/lab.git" in err
    assert not list(user.results.glob("*ledger.db*"))
    assert not list(user.results.glob(".ledger.db*"))


def test_another_ledger_than_that_of_the_runs_here_is_refused_before_anything_is_queued(
    user: User, slurm: FakeSlurm
) -> None:
    user.run("ledger", "init", "study.yaml", "--ledger", "sqlite:new.db")
    user.run("run", *AT, "--only", "repeats=0", "--cpu-slots", "1")
    submit = ("slurm", "submit", "study.yaml", *TIME, "--workers", "1")
    lab = f"git+file://{user.folder}/lab.git"
    assert f"add --ledger {lab}" in user.run(*submit, code=3).stderr
    other = user.run(*submit, "--ledger", "sqlite:other.db", code=3).stderr
    assert f"add --ledger {lab}" in other
    user.write(SLEEPING)
    running = user.start("run", *AT, "--cpu-slots", "1")
    until(lambda: user.json("status", *AT)["running"] == 1)
    refused = user.run(*submit, "--ledger", "sqlite:new.db", code=3).stderr
    assert f"a run with another ledger, {lab}, is active" in refused
    assert slurm.calls("sbatch") == []
    running.terminate()
    running.communicate(timeout=60)


def test_two_tests_of_the_locks_at_once_have_jobs_and_files_of_their_own(
    user: User, slurm: FakeSlurm
) -> None:
    processes = []
    for count in (1, 2):
        processes.append(user.start("slurm", "submit", "study.yaml", *TIME, "--workers", "2"))
        until(lambda count=count: len(slurm.jobs()) == count)  # type: ignore[misc]
    assert len({job["name"] for job in slurm.jobs()}) == 2
    assert len(list(user.results.glob(".ledger.db.lock-test-????????"))) == 2
    slurm.become("GONE")
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert "the job of the test ended before all machines took part" in err
        assert "Traceback" not in err
    assert not list(user.results.glob(".ledger.db*"))
