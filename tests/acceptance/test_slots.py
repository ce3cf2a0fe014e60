"""Devices are added to a run and taken from it while it goes, from another shell or by a file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psutil
import pytest

from benchfleet.cli.main import main
from benchfleet.cli.verbs import slots as slots_verb
from benchfleet.domain.event import Event
from benchfleet.ledger.sqlite.ledger import SqliteLedger

from .conftest import User, end_of, until, wait_for_line, well
from .test_gpus import ADA

LONG = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  benchmarks: [{_hostile: {samples: 40, seconds: 0.02}}]
defaults: {repeats: 400}
"""


def running(user: User, *words: str) -> subprocess.Popen[str]:
    """A run that is at work."""
    process = user.start("run", "study.yaml", *words)
    until(lambda: any(slot["cell"] for slot in slots(user)))
    return process


def slots(user: User) -> list[dict[str, Any]]:
    """What the run's slots do."""
    return [
        slot
        for runner in user.json("slots", code=None)["runners"]
        for slot in runner.get("slots", ())
    ]


def opened(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The supervisors of the run's slots."""
    return psutil.Process(process.pid).children()


def states(user: User) -> dict[str, str]:
    return {slot["devices"]: slot["state"] for slot in slots(user)}


def test_devices_come_and_go_while_a_run_goes_on(
    user: User,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    user.write(LONG)
    process = running(user, "--cpu-slots", "1")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", user.environment["XDG_CACHE_HOME"])
    assert main(["slots", "add", "cpu:1"]) == 0
    assert "cpu:1 is added" in capsys.readouterr().out
    until(lambda: states(user).get("cpu:1") == "benchmark")
    assert len(opened(process)) == 2
    output = user.run("slots", "drain", "study.yaml", "cpu:0", "--now", "--wait").stdout
    assert "cpu:0 is drained" in output
    assert output.endswith("cpu:0 is free\n")
    assert len(opened(process)) == 1
    user.run("slots", "study.yaml", "drain", "cpu:1", "--now", "--wait")  # either order
    assert not opened(process)
    until(lambda: states(user) == {"cpu:0": "drained", "cpu:1": "drained"})
    process.send_signal(signal.SIGINT)
    out = end_of(process, 130)
    assert out.count("given back") == 2
    assert user.json("slots")["runners"] == []


def test_a_run_that_waits_for_slots_goes_on_when_the_signal_file_gives_one(user: User) -> None:
    user.write(LONG)
    process = running(user, "--cpu-slots", "1")
    order = user.results / "slots.txt"
    order.write_text("drain cpu:0 now\nadd gpu3\n")
    wait_for_line(process, "for slots: ")
    until(lambda: not opened(process))
    order.write_text("add cpu:0")
    wait_for_line(process, "✓")
    assert not order.exists()


def test_gpus_that_are_added_are_looked_at_as_any_other(
    user: User,
    gpus: Callable[..., None],
) -> None:
    gpus(well(0), well(1), well(2, processes=[ADA]))
    user.write(LONG)
    process = running(user, "--gpus", "0")
    done = user.run("slots", "add", "gpu:1", "gpu:2", "gpu:9", "gpu:0", code=1)
    assert "gpu:1 is added" in done.stdout
    assert done.stderr.splitlines() == [
        "refused: no gpu:9 on this machine; there are gpu:0, gpu:1, gpu:2",
        "refused: gpu:0 is part of this run already",
    ]
    later = user.run("slots", "drain", "gpu:2")
    assert "ordered by" not in later.stdout + user.run("slots").stdout  # old refusals are no news
    orders = user.json("slots")["runners"][0]["orders"]
    assert [order["verdict"] for order in orders] == ["accepted", "partly refused"]
    user.run("slots", "add", "gpu:2")
    until(lambda: states(user).get("gpu:2") == "left alone")
    until(lambda: states(user).get("gpu:1") == "benchmark")
    process.send_signal(signal.SIGINT)
    out = end_of(process, 130)
    assert "gpu:2 is left alone" in out


def test_a_runner_that_was_killed_is_not_asked(user: User) -> None:
    user.write(LONG)
    process = running(user, "--cpu-slots", "1")
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    done = user.run("slots", "drain", "cpu:0", code=1)
    assert "no run is on; start one with: benchfleet run study.yaml" in done.stdout


def test_runners_elsewhere_are_named_and_one_that_does_not_answer_is_reported(
    user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    user.write(LONG)
    user.results.mkdir(parents=True)
    user.run("ledger", "rebuild", "study.yaml")
    monkeypatch.chdir(user.folder)
    monkeypatch.setattr(slots_verb, "_ANSWER_TIMEOUT_S", 0.2)
    with closing(SqliteLedger(user.results / "ledger.db", campaign="study")) as ledger:
        for runner, machine in (("abc", "box1"), ("abd", "box2")):
            data = {"runner": runner, "machine": machine, "process": "1@1"}
            ledger.record(Event(kind="runner_began", data=data))
    assert main(["slots", "add", "gpu:3"]) == 2
    assert "is on this machine; name one with --runner: abc on box1" in capsys.readouterr().err
    assert main(["slots", "add", "lab1/gpu:3"]) == 2
    assert "2 runners are at work; name one with --runner" in capsys.readouterr().err
    assert main(["slots", "add", "gpu:3", "--runner", "abc"]) == 1
    assert "does not answer; it is gone, suspended" in capsys.readouterr().out
    assert main(["slots", "--json"]) == 1
    output = json.loads(capsys.readouterr().out)["runners"]
    assert [(one["runner"], one["answered"]) for one in output] == [("abc", False), ("abd", False)]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["add"], "add what? name devices, such as gpu:3 or cpu:0"),
        (["drain", "gpu3"], "invalid device 'gpu3': write gpu:3, cpu:0 or lab2/gpu:1"),
        (
            ["dran", "gpu:3"],
            "'dran' is not a file, a device or one of add, drain",
        ),
        (["gpu:3"], "what of gpu:3? write: benchfleet slots drain gpu:3"),
        (["add", "gpu:3", "--now"], "--now goes with drain or remove"),
        (["--runner", "abc"], "no runner 'abc' is at work (it ended); there are: none"),
        (["other.yaml"], "other.yaml"),
    ],
)
def test_senseless_arguments_are_reported(user: User, words: list[str], output: str) -> None:
    user.write(LONG)
    user.results.mkdir(parents=True)
    user.run("ledger", "rebuild", "study.yaml")
    assert output in user.run("slots", *words, code=2).stderr


def test_without_a_campaign_the_only_one_here_is_meant(user: User) -> None:
    assert "no campaign file in this folder" in user.run("slots", code=2).stderr
    user.write(LONG)
    user.write("hosts: [a]\n", "machines.yaml")
    assert "no run is on" in user.run("slots").stdout
    user.write(LONG, "other.yml")
    assert "which campaign? name one of other.yml, study.yaml" in user.run("slots", code=2).stderr


def test_what_is_removed_without_a_run_is_left_out_of_the_next(user: User) -> None:
    user.write(LONG.replace("400}", "1}"))
    user.results.mkdir(parents=True)
    user.run("ledger", "rebuild", "study.yaml")
    assert "later ones leave cpu:0 out" in user.run("slots", "remove", "cpu:0").stdout
    output = user.run("run", "study.yaml", "--cpu-slots", "1", code=1).stdout
    assert "cpu:0 is left out: it was removed" in output
    assert "ended early: every device of this run was removed" in " ".join(output.split())
    assert "later ones leave cpu:0 out no longer" in user.run("slots", "add", "cpu:0").stdout
    user.run("run", "study.yaml", "--cpu-slots", "1")
