"""``benchfleet work``: a worker on a shared ledger, with the campaign's file and without."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

import pytest

from benchfleet.cli.shared import foreground_run
from repositories import make_bare

from .conftest import MOCK, User, end_of, until, wait_for_line

SCRIPT = """
    - command: {name: mine, argv: [sh, -c, "echo '{\\"score\\": 1}' > {result}"]}
"""
LEDGER = ("--ledger", "sqlite:shared.db")
CPU = ("--cpu-slots", "1")


@pytest.fixture
def enrolled(user: User) -> User:
    """A ledger with four cells, of which one is done, and the folder of a worker without a file."""
    user.write(MOCK.replace("[mock_benchmark]", "\n    - mock_benchmark" + SCRIPT))
    user.run("cancel", "study.yaml", *LEDGER, "--yes")
    user.run("retry", "study.yaml", *LEDGER)
    return user


def test_a_worker_without_the_file_runs_what_names_no_code_and_says_what_it_leaves(
    enrolled: User,
) -> None:
    done = enrolled.run("work", *LEDGER, *CPU)
    assert sorted(enrolled.published()) == ["m1/dense/mock_benchmark", "m2/dense/mock_benchmark"]
    assert "left for others: 2 cells (m1/dense/mine, m2/dense/mine)" in done.stdout
    assert "it names code: a command" in done.stdout
    assert enrolled.json("status", *LEDGER)["pending"] == 2
    again = enrolled.json("work", *LEDGER, *CPU, "--trust-campaign")
    assert again["counts"]["success"] == 4
    output = json.loads((enrolled.results / f"{socket.gethostname()}_summary.json").read_text())
    assert (output["machine"], output["phase"]) == (socket.gethostname(), "")
    assert all(one["success"] for one in output["results"])
    assert {one["task"] for one in output["results"]} == set(enrolled.published())


def test_a_worker_with_the_file_runs_its_code_for_the_models_that_it_is_allowed(
    enrolled: User,
) -> None:
    enrolled.run("work", "study.yaml", *LEDGER, *CPU, "--models", "m1,x*")
    assert sorted(enrolled.published()) == ["m1/dense/mine", "m1/dense/mock_benchmark"]
    assert enrolled.json("status", *LEDGER)["pending"] == 2


def test_a_worker_that_may_run_no_cell_fails_and_writes_nothing(enrolled: User) -> None:
    words = ("work", *LEDGER, *CPU, "--only", "benchmarks=mine", "--results", "elsewhere")
    refused = enrolled.run(*words, code=2)
    assert "left for others: 2 cells" in refused.stdout
    assert "or --trust-campaign if you trust its author" in refused.stdout
    assert "no cells" not in refused.stdout
    assert "no cell may run here, so nothing was run" in refused.stderr
    assert not (enrolled.folder / "elsewhere").exists()


def test_the_environment_may_trust_a_ledger(
    enrolled: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFLEET_TRUST", f"other, sqlite:{enrolled.folder}/shared.db")
    assert enrolled.json("work", *LEDGER, *CPU)["counts"]["success"] == 4


def test_one_that_stays_takes_what_comes_and_ends_when_it_is_asked(user: User) -> None:
    user.write(MOCK)
    user.run("ledger", "init", "study.yaml", *LEDGER)
    worker = user.start("work", *LEDGER, *CPU, "--forever")
    user.run("cancel", "study.yaml", *LEDGER, "--yes")
    user.run("retry", "study.yaml", *LEDGER)
    until(lambda: user.json("status", *LEDGER)["success"] == 2)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(60) == 130
    output = worker.communicate()[0]
    assert "continue with: benchfleet work --ledger sqlite:shared.db" in output
    assert len(user.published()) == 2


def test_a_detached_worker_is_found_watched_and_stopped_without_a_file(enrolled: User) -> None:
    output = enrolled.run("work", *LEDGER, *CPU, "--forever", "--detach").stdout
    assert "watch    benchfleet attach benchmark_results/study" in output
    until(lambda: enrolled.json("status", *LEDGER)["success"] == 2)
    stopped = enrolled.run("stop", "benchmark_results/study").stdout
    assert "continue with: benchfleet work --ledger sqlite:" in stopped
    attached = enrolled.run("attach", "benchmark_results/study", code=130).stdout
    assert "2 success" in attached


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (("work",), 2, "give its file, or --ledger"),
        (("work", "--ledger", "sqlite:none.db"), 3, "none.db has no ledger of a campaign"),
        (("work", "--ledger", "sqlite:///./shared.db"), 3, "give the file in this folder as ./sh"),
        (("work", *LEDGER, "--campaign", "stdy"), 3, "did you mean 'study'?"),
        (("work", *LEDGER, "--limit", "2"), 2, "needs the campaign's file"),
        (("work", *LEDGER, "--max-hours", "0"), 2, "use hours, such as 3.5"),
        (("work", "study.yaml", "--campaign", "study"), 2, "drop it, since"),
        (("work", *LEDGER), 2, "has no cell of 'study' yet"),
    ],
)
def test_invalid_arguments_of_a_worker_are_reported(
    user: User, words: tuple[str, ...], code: int, output: str
) -> None:
    user.write(MOCK)
    user.run("ledger", "init", "study.yaml", *LEDGER)
    assert output in user.run(*words, code=code).stderr
    assert not (user.folder / "none.db").exists()


def test_a_ledger_without_cells_has_none_and_no_state_to_tell(user: User) -> None:
    user.write(MOCK)
    user.run("ledger", "init", "study.yaml", *LEDGER)
    assert user.run("status", *LEDGER).stdout == "study: 0 cells\n"


def test_a_worker_becomes_a_service_of_systemd(enrolled: User) -> None:
    output = enrolled.json("service", "--worker", *LEDGER, *CPU, "--forever", "--models", "m*")
    assert output["name"] == "benchfleet-study.service"
    ran = next(line for line in output["unit"].splitlines() if line.startswith("ExecStart="))
    assert '"work" "--ledger" "sqlite:shared.db"' in ran
    assert '"--forever" "--models" "m*"' in ran
    assert "--worker" not in ran
    refused = enrolled.run("service", "study.yaml", *LEDGER, "--forever", code=2).stderr
    assert "add --worker" in refused
    address = "postgresql://me:hush-hush@db/bench"
    shown = enrolled.run("service", "--worker", "--ledger", address, code=2).stderr
    assert "contains a password" in shown
    assert "hush-hush" not in shown


def test_a_service_says_which_secrets_its_unit_lacks(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = "{name: m2, adapter: openai, url: 'http://lab/v1', key: 'env:LAB_KEY'}"
    user.write(MOCK.replace("{name: m2, adapter: mock, model_kwargs: {answer: Ingham}}", served))
    monkeypatch.setenv("HOME", str(user.folder))
    for name in ("LAB_KEY", "PGPASSWORD", "HF_TOKEN"):
        monkeypatch.setenv(name, "hush-hush")
    secrets = user.folder / ".config" / "benchfleet" / "environment"
    secrets.parent.mkdir(parents=True)
    secrets.write_text("HF_TOKEN=another\n")
    shown = user.run("service", "study.yaml", *CPU)
    assert "put LAB_KEY, PGPASSWORD into ~/.config/benchfleet/environment" in shown.stderr
    assert "hush-hush" not in shown.stdout + shown.stderr
    secrets.write_text("HF_TOKEN=another\nLAB_KEY=another\nPGPASSWORD=another\n")
    assert "note" not in user.run("service", "study.yaml", *CPU).stderr


@pytest.mark.parametrize("address", ["sqlite:shared.db", "git+file:lab.git"])
def test_one_that_stays_waits_for_a_ledger_that_does_not_exist_yet(
    user: User, address: str
) -> None:
    make_bare(user.folder / "lab.git")
    user.write(MOCK)
    absent = user.run("work", "--ledger", address, *CPU, code=3).stderr
    assert "has no ledger of a campaign; create one with `benchfleet run` or " in absent
    process = user.start("work", "--ledger", address, *CPU, "--forever", "--results", "there")
    wait_for_line(process, "waiting: ")
    user.run("cancel", "study.yaml", "--ledger", address, "--yes")
    user.run("retry", "study.yaml", "--ledger", address)
    until(lambda: user.json("status", "study.yaml", "--ledger", address)["success"] == 2)
    process.send_signal(signal.SIGTERM)
    end_of(process, code=130)


def test_one_that_waits_for_a_ledger_ends_when_it_was_idle_for_long_enough(user: User) -> None:
    ended = user.run("work", "--ledger", "sqlite:none.db", *CPU, "--idle-exit", "0.5", code=3)
    assert "waiting: " in ended.stdout
    assert "none.db has no ledger of a campaign" in ended.stderr


def test_one_that_was_idle_for_long_enough_ends(enrolled: User) -> None:
    done = enrolled.run("work", *LEDGER, *CPU, "--trust-campaign", "--idle-exit", "0.5")
    assert "ended early" not in done.stdout
    assert enrolled.json("status", *LEDGER)["success"] == 4


@pytest.mark.parametrize(("remaining", "cells"), [(-30, 0), (50, 0), (3600, 4)])
def test_in_a_batch_job_it_begins_nothing_in_the_last_minute_and_exits_well(
    enrolled: User, remaining: int, cells: int
) -> None:
    ends_at = str(int(time.time()) + remaining)
    words = ("work", *LEDGER, *CPU, "--trust-campaign", "--idle-exit", "1", "--ends-at", ends_at)
    enrolled.run(*words)
    assert enrolled.json("status", *LEDGER)["success"] == cells


def test_in_a_batch_job_a_signal_after_the_last_cell_is_no_failure(
    enrolled: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's warning may come while the summary is being written."""

    def warned(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr(foreground_run, "_write_files", warned)
    ends_at = str(int(time.time()) + 3600)
    words = ("work", *LEDGER, *CPU, "--trust-campaign", "--idle-exit", "1", "--ends-at", ends_at)
    assert enrolled.run_here(*words).returncode == 0
    assert enrolled.json("status", *LEDGER)["success"] == 4
