"""Runs that go on without their terminal, and seeing and ending them from another shell."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.results.layout import Layout
from benchfleet.runs.registry import Record, runs_of

from .conftest import MOCK, User, samples_kept, until

SLOW = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 2000, seconds: 0.02}}]
"""
HANGS = SLOW.replace("seconds: 0.02", "act: hang, at: 5")


@pytest.fixture
def user(user: User) -> Iterator[User]:
    """Whatever a test leaves behind is ended."""
    yield user
    for record in runs(user):
        if record.process.pid != os.getpid():  # that of a run in the test's own process
            record.process.signal(signal.SIGKILL)


def runs(user: User) -> list[Record]:
    return runs_of(Layout(user.results))


def detached(user: User, *words: str) -> Record:
    """The run that goes on in the background after `run --detach`."""
    before = {record.file for record in runs(user)}
    output = user.json("run", "study.yaml", "--detach", *words)
    (record,) = [record for record in runs(user) if record.file not in before]
    assert (record.process.pid, record.log) == (output["pid"], output["log"])
    return record


def test_a_detached_run_outlives_its_shell_and_ends_as_any_other(user: User) -> None:
    user.write(MOCK)
    output = user.run("run", "study.yaml", "--detach").stdout
    assert "watch    benchfleet attach study.yaml\nstop     benchfleet stop study.yaml\n" in output
    seen = user.run("attach", "study.yaml")
    assert "study   2 cells: 2 success" in seen.stdout
    assert "report   benchmark_results/study/report.md" in seen.stdout
    (record,) = runs(user)
    until(lambda: not record.process.lives())
    assert "study   2 cells: 2 success" in Path(record.log).read_text()
    assert user.json("attach", "study.yaml")["counts"]["success"] == 2


def test_the_free_port_of_the_metrics_is_printed_in_this_shell(user: User) -> None:
    user.write(SLOW)
    printed = user.run("run", "study.yaml", "--detach", "--metrics-port", "0").stdout
    (address,) = re.findall(r"^metrics  (http://127\.0\.0\.1:\d+/metrics)$", printed, re.MULTILINE)
    with urllib.request.urlopen(address, timeout=30) as output:  # noqa: S310 - it is http
        assert b'benchfleet_cells{campaign="study"' in output.read()
    attached = user.start("attach", "study.yaml")
    try:
        assert attached.stderr is not None
        assert attached.stderr.readline() == f"metrics  {address}\n"
    finally:
        attached.kill()
        attached.communicate()


def test_it_has_a_session_of_its_own_and_no_terminal_and_ignores_hang_up(user: User) -> None:
    user.write(SLOW)
    process = detached(user).process
    assert os.getsid(process.pid) == process.pid
    open_files = [os.readlink(f"/proc/{process.pid}/fd/{n}") for n in range(3)]
    assert open_files == ["/dev/null", *[str(runs(user)[0].log)] * 2]
    kept = samples_kept(user)
    process.signal(signal.SIGHUP)
    until(lambda: samples_kept(user) > kept + 5)
    again = user.run("run", "study.yaml", "--detach", code=2).stderr
    assert f"a run of study is already running (pid {process.pid}, since " in again
    assert "benchfleet run study.yaml --detach --another" in again
    assert len(runs(user)) == 1
    view = user.start("attach")  # whatever runs
    assert view.stdout is not None
    assert view.stdout.readline() == "study: 1 cell · 0 done · 1 running\n"
    view.send_signal(signal.SIGINT)
    _, err = view.communicate(timeout=60)
    assert view.returncode == 130
    assert f"left the view; the run continues (pid {process.pid}, since " in err
    assert "stop it with: benchfleet stop study.yaml" in err
    assert process.lives()
    ended = user.run("stop", "study.yaml").stdout
    # It follows the run from when it has signalled it; the cell may have stopped by then.
    stops = "1 running cell stops after the sample at hand", "given back"
    assert any(words in ended for words in stops)
    assert "study: ended; 1 cell · 0 done\n" in ended
    assert "nothing is lost; continue with: benchfleet run study.yaml" in ended
    until(lambda: not process.lives())
    assert user.json("status", "study.yaml")["pending"] == 1
    assert "nothing is lost" in user.run("attach", "study.yaml", code=130).stdout
    assert "no run of study.yaml is active" in user.run("stop", "study.yaml").stdout


def test_stop_now_waits_for_no_sample_and_several_are_asked_about(user: User) -> None:
    user.write(HANGS + "defaults: {repeats: 2}\n")
    first = detached(user, "--cpu-slots", "1")
    second = detached(user, "--cpu-slots", "1", "--another")
    until(lambda: samples_kept(user) >= 10)
    assert "choose one" in user.run("attach", "study.yaml", code=2).stderr
    assert "this would stop 2 runs" in user.run("stop", code=2).stderr
    one = user.json("stop", "--now", "--pid", str(first.process.pid))
    assert one == {"stopped": [{"campaign": "study", "pid": first.process.pid}]}
    assert second.process.lives()
    out = user.run("stop", "--now", "--yes").stdout
    assert "SIGTERM again: ended now" in out
    until(lambda: not second.process.lives())
    assert samples_kept(user) >= 10


def test_mistakes_appear_in_this_shell(user: User) -> None:
    user.write(MOCK.replace("mock_benchmark", "mock_benchmrk"))
    assert "nothing was run" in user.run("run", "study.yaml", "--detach", code=2).stderr
    assert not user.results.exists()
    user.write(MOCK)
    user.run("run", "study.yaml")
    assert "nothing was run" in user.run("run", "study.yaml", "--detach").stdout
    for file in user.results.glob("ledger.db*"):
        file.unlink()
    broken = user.run("run", "study.yaml", "--detach", code=3)  # seen by the run itself
    assert "benchfleet ledger rebuild" in broken.stderr


def test_runs_that_fail_before_they_begin_leave_neither_record_nor_log(
    user: User,
) -> None:
    user.write(SLOW)
    wrong = ("--detach", "--ledger", str(user.write("no ledger", "notes.db")))
    for _ in range(2):  # the run itself reports it, as it opens its ledger
        assert "cannot be used" in user.run("run", "study.yaml", *wrong, code=3).stderr
    assert runs(user) == []
    assert [*user.folder.rglob("*.log")] == []
    good = detached(user)
    assert [run.file for run in runs(user)] == [good.file]
    other = ("--detach", "--ledger", "sqlite:other.db")
    refused = user.run("run", "study.yaml", *other, "--another", code=3).stderr
    assert "a run with another ledger" in refused  # before it writes anything
    assert [*good.file.parent.glob("*.log")] == [Path(good.log)]


def test_a_run_that_was_killed_is_reported_and_blocks_no_other(user: User) -> None:
    user.write(SLOW)
    killed = detached(user)
    view = user.start("attach", "study.yaml")
    assert view.stdout is not None
    view.stdout.readline()
    killed.process.signal(signal.SIGKILL)
    _, err = view.communicate(timeout=60)
    assert view.returncode == 1
    assert "ended without a report" in err
    assert killed.log.rpartition("/")[2] in err
    assert "no run of study.yaml is active" in user.run("stop", "study.yaml").stdout
    assert detached(user).process.lives()


LIBRARY = """\
import benchfleet
executor = benchfleet.BenchmarkExecutor([], 1, "results")
mock = benchfleet.BenchmarkConfig("_hostile", settings={"samples": 2000, "seconds": 0.02})
executor.run_benchmark_matrix(
    ["m1"], [("dense", None)], [mock], benchfleet.AdapterConfig(adapter_name="mock")
)
"""


def test_a_call_of_the_library_is_seen_and_stopped_too(user: User) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", LIBRARY],
        cwd=user.folder,
        env=user.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = user.folder / "results"
    until(lambda: any((folder / ".attempts").glob("*/*/samples.jsonl")))
    view = user.start("attach", "results", "--log-json")
    assert view.stdout is not None
    assert json.loads(view.stdout.readline())["kind"] == "run_started"
    assert "ended; 1 cell · 0 done" in user.run("stop", "results").stdout
    _, err = program.communicate(timeout=60)
    assert err.endswith("KeyboardInterrupt\n")
    view.communicate(timeout=60)
    assert view.returncode == 130


def test_a_copy_of_its_ledger_does_not_run_beside_a_run_in_the_same_folder(user: User) -> None:
    waits = user.folder / "waits"
    waits.touch()
    two = f"act: wait, shared: {waits}}}}}, mock_benchmark]"
    user.write(SLOW.replace("seconds: 0.02}}]", two))
    going = detached(user, "--cpu-slots", "1", "--only", "benchmarks=_hostile")
    until(lambda: samples_kept(user) > 0)
    copy = ("ledger", "copy", "study.yaml", "--to", "sqlite:copy.db")
    assert "add --yes" in user.run(*copy, code=3).stderr
    output = user.run(*copy, "--yes")
    assert "runners hold 1 of its cells, such as m1/dense/_hostile" in output.stderr
    beside = ("run", "study.yaml", "--ledger", "sqlite:copy.db", "--only", "benchmarks=mock*")
    printed = user.run(*beside, code=3).stderr
    assert f"with another ledger, {user.results}/ledger.db, is active" in printed
    assert "benchfleet stop" in printed
    assert len(runs(user)) == 1
    waits.unlink()
    user.run("stop", "study.yaml")
    until(lambda: not going.process.lives())
    user.run(*beside)
