"""A machine that sleeps past its leases and wakes: its work goes on, or another has taken it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from .conftest import User, samples_kept, until

LEASE = 6  # seconds
STUDY = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 60, seconds: 0.02}}]
"""


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", str(LEASE))


@contextlib.contextmanager
def asleep(process: subprocess.Popen[str], *, first_up: str) -> Iterator[None]:
    """Suspend the runner, its slots and their supervisors, like a machine that sleeps."""
    runner = psutil.Process(process.pid)
    tree: list[psutil.Process] = []

    def alone() -> bool:  # without what it asks the machine while it begins
        tree[:] = [runner, *runner.children(recursive=True)]
        return len(tree) == 3

    until(alone)
    for each in tree:
        each.suspend()
    try:
        yield
    finally:
        for each in tree if first_up == "runner" else reversed(tree):
            with contextlib.suppress(psutil.NoSuchProcess):  # a runner that is up may have ended it
                each.resume()


def ended(user: User) -> list[tuple[int, str]]:
    """The attempt and the state of every outcome that the ledger took."""
    with contextlib.closing(sqlite3.connect(user.results / "ledger.db")) as ledger:
        found = ledger.execute("select data from event where kind = 'finished'").fetchall()
    outcomes = [json.loads(data) for (data,) in found]
    return [(outcome["attempt"], outcome["outcome"]["state"]) for outcome in outcomes]


@pytest.mark.parametrize("first_up", ["runner", "slot"])
def test_it_goes_on_where_nobody_took_its_work(user: User, first_up: str) -> None:
    user.write(STUDY)
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 5)
    with asleep(process, first_up=first_up):
        time.sleep(LEASE + 2)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "! slot" not in out  # none was lost, nor blamed for its silence
    assert ended(user) == [(1, "success")]
    (path,) = user.published()
    provenance = json.loads((user.results / path / "cell.json").read_text())["provenance"]
    assert provenance["resumed_samples"] == 0


def test_it_publishes_nothing_of_what_another_took_meanwhile(user: User) -> None:
    user.write(STUDY)
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 5)
    with asleep(process, first_up="runner"):
        user.run("run", "study.yaml")
        before = user.published()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert user.published() == before
    assert [state for _, state in ended(user)] == ["success"]
