"""What happens to people: results deleted, terminals gone, parts of a campaign run."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from postgres import Postgres
from repositories import make_bare

from .conftest import COMMAND, MOCK, User, end_of, samples_kept, until
from .test_interruptions import SLOW


def summary(user: User) -> dict[str, object]:
    found: dict[str, object] = json.loads((user.results / "execution_summary.json").read_text())
    return found


def unpublish(user: User, path: str) -> Path:
    """As if the runner had been killed between the ledger's commit and the rename."""
    public = user.results / path
    fingerprint: str = json.loads((public / "cell.json").read_text())["fingerprint"]
    waits = user.results / ".attempts" / fingerprint / "1-1"
    waits.parent.mkdir(parents=True)
    public.rename(waits)
    return waits


def test_a_result_that_waits_for_its_rename_is_not_gone_and_runs_no_second_time(
    finished: User,
) -> None:
    before = finished.published()
    unpublish(finished, "m1/dense/mock_benchmark")
    status = finished.json("status", "study.yaml")
    assert (status["gone"], status["unpublished"]) == ([], ["m1/dense/mock_benchmark"])
    output = finished.run("status", "study.yaml").stdout
    assert "m1/dense/mock_benchmark  done; the next run puts it at its place" in output
    assert "retry" not in output
    assert finished.json("retry", "study.yaml", "--gone")["pending_again"] == []
    assert "published now" in finished.run("run", "study.yaml").stdout
    assert finished.published() == before
    assert finished.json("status", "study.yaml")["unpublished"] == []


def test_an_occupied_path_is_reported_by_every_run_and_ends_none(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--only", "models=m1")
    waits = unpublish(user, "m1/dense/mock_benchmark")
    public = user.results / "m1/dense/mock_benchmark"
    public.mkdir()
    (public / "mine.txt").touch()
    for _ in range(2):
        output = user.run("run", "study.yaml", code=1).stdout.replace("\n", "")
        assert "cannot be published" in output
    output = user.run("status", "study.yaml").stdout
    way_out = "something else lies at its place: benchfleet verify study.yaml"
    assert f"m1/dense/mock_benchmark  done; {way_out}" in output
    assert "m2/dense/mock_benchmark" in user.published()
    assert waits.exists()
    (public / "mine.txt").rename(user.folder / "mine.txt")
    public.rmdir()
    user.run("run", "study.yaml")
    assert len(user.published()) == 2


def test_results_with_a_ledger_of_their_own_are_brought_to_another_with_its_history(
    finished: User,
) -> None:
    asked = ("run", "study.yaml", "--ledger", f"sqlite:///{finished.folder / 'other.db'}")
    output = finished.run(*asked, code=3).stderr
    assert "`benchfleet ledger copy " in output
    assert f"benchfleet: {finished.folder}/other.db is not there" in output
    for file in finished.results.glob("ledger.db*"):
        file.unlink()
    assert "ledger copy" not in finished.run(*asked, code=3).stderr


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "git", "results"])
def test_a_ledger_that_was_named_and_is_not_there_is_reported_whatever_it_is(
    user: User, postgres: Postgres, kind: str
) -> None:
    """Nothing that is shown says whether cells wait, or another place was meant."""
    user.write(MOCK.replace("campaign: study", "campaign: never-begun"))
    git = f"git+file://{make_bare(user.folder / 'lab.git')}"
    named = {"sqlite": "other.db", "postgresql": postgres.url(), "git": git}.get(kind, "")
    at = ["--ledger", named] if named else ["--results", "elsewhere"]
    for verb in ("status", "failures", "report", "retry", "verify"):
        output = user.run(verb, "study.yaml", *at, code=verb == "verify")
        assert "has no ledger of 'never-begun': nothing has run there" in output.stderr
        assert output.stderr.count("\n") == 1
    assert user.json("status", "study.yaml", *at)["pending"] == 2
    phases = "phases: [{name: first, only: {models: m1}}, {name: second, only: {models: m2}}]\n"
    user.write(MOCK.replace("campaign: study", "campaign: never-begun") + phases)
    assert "nothing has run there" in user.run("gate", "show", "study.yaml", *at).stderr
    unnamed = user.run("status", "study.yaml")
    assert unnamed.stderr == ""
    assert unnamed.stdout.endswith(
        "ledger.db; if workers used another ledger, give it: --ledger URL\n"
    )


def test_the_command_that_rebuilds_a_lost_ledger_names_the_chosen_folder(user: User) -> None:
    user.write(MOCK)
    at = ("study.yaml", "--results", "my results")
    user.run("run", *at)
    ledger = user.folder / "my results" / "study" / "ledger.db"
    ledger.unlink()
    refused = user.run("run", *at, code=3).stderr
    (command,) = re.findall(r"`benchfleet (ledger rebuild [^`]*)`", refused)
    user.run(*shlex.split(command))
    assert ledger.exists()
    assert not user.results.exists()


def test_rebuilding_leaves_out_what_was_changed(finished: User) -> None:
    for file in finished.results.glob("ledger.db*"):
        file.unlink()
    (finished.results / "m1/dense/mock_benchmark/metrics.json").write_text("{}")
    (finished.results / "m2/dense/mock_benchmark/samples.jsonl").unlink()
    output = finished.run("ledger", "rebuild", "study.yaml", code=1).stdout
    assert "metrics.json is not as it was sealed" in output
    assert "samples.jsonl is missing" in output
    assert finished.json("status", "study.yaml")["success"] == 0


def test_hints_name_the_same_folder_ledger_and_cells(user: User) -> None:
    user.write(MOCK.replace("[mock_benchmark]", "[{_hostile: {act: raise}}]"))
    where = ("--results", "other place", "--ledger", "sqlite:my ledger.db", "--limit", "2")
    output = user.run("run", "study.yaml", *where, "--only", "models=m1", code=1).stdout
    same = "study.yaml --results 'other place' --ledger 'sqlite:my ledger.db' --only models=m1"
    assert f"benchfleet retry {same} --limit 2 && benchfleet run {same} --limit 2" in output
    words = ("study.yaml", *where, "--only", "models=m1")
    assert len(user.json("retry", *words)["pending_again"]) == 1


def test_summary_and_report_speak_of_the_whole_campaign_whatever_was_run(user: User) -> None:
    user.write(MOCK)
    user.run("run", "study.yaml", "--only", "models=m1")
    assert summary(user)["counts"]["total"] == 2  # type: ignore[index]
    user.run("run", "study.yaml", "--limit", "1")
    assert summary(user)["counts"]["success"] == 1  # type: ignore[index]
    user.run("run", "study.yaml")
    assert summary(user)["counts"]["success"] == 2  # type: ignore[index]
    assert "2 cells: 2 success" in (user.results / "report.md").read_text()


@pytest.mark.parametrize(
    "end",
    [
        "| head -n 1",
        "> /dev/full",
        ">&- 2>&-",
        "| true",
        "--json 2>&- > /dev/null",
    ],
)
def test_losing_the_screen_ends_no_run(user: User, end: str) -> None:
    user.write(SLOW.replace("repeats: 6", "repeats: 2").replace("samples: 60", "samples: 5"))
    command = f"{' '.join(COMMAND)} run study.yaml {end}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=user.folder,
        env=user.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode in (0, 141)  # 141: the shell's own word on a pipe that nobody reads
    assert len(user.published()) == 2
    assert summary(user)["counts"]["success"] == 2  # type: ignore[index]


def test_a_closed_terminal_ends_the_run_in_good_order(user: User) -> None:
    user.write(SLOW)
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    process = user.start("run", "study.yaml")
    signal.signal(signal.SIGHUP, ours)
    until(lambda: samples_kept(user) > 5)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert user.json("status", "study.yaml")["running"] == 0


def test_a_run_under_nohup_ignores_a_closed_terminal(user: User) -> None:
    user.write(SLOW.replace("repeats: 6", "repeats: 2"))
    process = subprocess.Popen(
        ["nohup", *COMMAND, "run", "study.yaml"],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    until(lambda: samples_kept(user) > 5)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 0


def test_ctrl_c_while_a_model_loads_does_not_wait_for_it(user: User) -> None:
    user.write(MOCK.replace("answer: Ada Brandt", "answer: Ada Brandt, load_seconds: 600"))
    process = user.start("run", "study.yaml", "--only", "models=m1")
    until(lambda: bool(list((user.results / ".attempts").glob("*/*/log.txt"))))
    process.send_signal(signal.SIGINT)
    end_of(process, 130)
    assert user.json("status", "study.yaml")["pending"] == 2


def let_leases_run_out(user: User) -> None:
    """Sets the dead runner's leases back, as if their minute had passed."""
    ledger = sqlite3.connect(user.results / "ledger.db")
    ledger.execute("update cell set expires = 0 where state = 'running'")
    ledger.commit()
    ledger.close()


def test_a_suspended_runner_goes_on_with_its_own_cells(user: User) -> None:
    """Ctrl-Z for longer than a lease, and nobody else there: nothing is taken from it."""
    user.write(SLOW.replace("repeats: 6", "repeats: 2"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 5)
    runner = psutil.Process(process.pid)
    runner.suspend()
    let_leases_run_out(user)
    time.sleep(2.5)  # so long that the runner notices that it was away
    runner.resume()
    out = end_of(process)
    assert "held elsewhere now" not in out
    assert "ran out" not in out


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_whose_ledger_a_newer_benchfleet_took_over_says_so_and_how_it_ended(
    user: User, as_json: bool
) -> None:
    waits = user.write("", "waits")
    user.write(MOCK.replace("mock_benchmark", f"{{_hostile: {{act: wait, shared: {waits}}}}}"))
    running = user.start("run", "study.yaml", *(["--json"] if as_json else []))
    until(lambda: samples_kept(user) > 0)
    with sqlite3.connect(user.results / "ledger.db") as ledger:
        ledger.execute("update meta set value = '99' where key = 'schema'")
    waits.unlink()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 3, out + err
    output = "a newer benchfleet upgraded the ledger: no summary and no report written"
    assert f"{output}; upgrade benchfleet, and continue with: benchfleet run study.yaml" in err
    assert err.count("its schema is 99") == 1
    if as_json:
        ended = json.loads(out)
        assert (ended["ran"], ended["counts"]["success"], ended["counted_at"]) == (2, 2, None)
    else:
        assert "study: 2 cells · 2 done\nresults  benchmark_results/study\n" in out
    assert len(user.published()) == 2


def test_the_module_runs_like_the_command(user: User) -> None:
    user.write(MOCK)
    done = subprocess.run(
        [COMMAND[0], "-m", "benchfleet", "status", "study.yaml"],
        cwd=user.folder,
        env=user.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "2 pending" in done.stdout
