"""Messages of a run, taken by a receiver on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.domain.matrix import Matrix
from benchfleet.domain.notification import NotificationSettings
from benchfleet.notifications.notifier import notifying
from benchfleet.notifications.send import send
from benchfleet.runner.progress import Notice, Progress
from benchfleet.study import Study, open_study

from .conftest import User, end_of, until

SECRET = "s3cret-t0ken"  # noqa: S105 - of the test alone
STUDY = """\
campaign: study
notify: {to: env:CHAT, failures: 20%, every: 1s}
price: 1 USD/h
budget: 0.0000001 USD
phases:
  - name: first
    gate: "min(overall_score) >= 0"
    matrix: {models: [{name: m, adapter: mock}], benchmarks: [mock_benchmark]}
"""
GATES = """\
campaign: gates
notify: {to: env:CHAT, failures: 20%, every: 1s}
defaults: {limits: {tries: 1}}
phases:
  - name: first
    gate: "min(overall_score) >= 0"
    matrix: {models: [{name: m, adapter: mock}], benchmarks: [mock_benchmark]}
  - name: second
    gate: "min(overall_score) >= 0.9"
    matrix:
      models: [{name: n, adapter: none}]
      configs: {a: null, b: {settings: {x: 1}}, c: {settings: {x: 2}}}
      benchmarks: [command: {name: broken, argv: ["false"]}]
"""
PLAIN = """\
campaign: plain
notify: {to: env:CHAT, every: 1s}
matrix: {models: [{name: m, adapter: mock}], benchmarks: [mock_benchmark]}
"""
SHARED = """\
campaign: study
notify: {to: env:CHAT, every: 1s}
defaults: {limits: {tries: 1}}
phases:
  - name: first
    matrix:
      models: [{name: m1, adapter: mock}, {name: m2, adapter: mock}]
      benchmarks: [{_hostile: {act: wait, shared: GATE}}]
  - name: second
    gate: "min(overall_score) >= 0.9"
    matrix:
      models: [{name: n, adapter: none}]
      configs: {a: null, b: {settings: {x: 1}}, c: {settings: {x: 2}}}
      benchmarks: [command: {name: broken, argv: ["false"]}]
"""


class Receiver(ThreadingHTTPServer):
    """Takes what `json://` posts; does not answer while it holds."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.messages: list[dict[str, Any]] = []
        self.status = 200
        self.free = threading.Event()
        self.free.set()
        self.asked = threading.Event()

    @property
    def address(self) -> str:
        return f"json://me:{SECRET}@127.0.0.1:{self.server_port}/{SECRET}"

    def text(self) -> str:
        return "\n".join(one["message"] for one in self.messages)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.set()
        self.server.free.wait(120)
        self.server.messages.append(message)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.free.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def user(user: User, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setenv("CHAT", receiver.address)
    return user


def leaked(folder: Path) -> list[Path]:
    """The files that hold the secret."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if SECRET.encode() in file.read_bytes()]


def test_phases_gates_failures_and_the_end_are_reported(user: User, receiver: Receiver) -> None:
    user.write(GATES)
    done = user.run("run", "study.yaml", "--cpu-slots", "1", "--log-json", code=1)
    text = receiver.text()
    assert {one["title"] for one in receiver.messages} == {"benchfleet: gates"}
    assert "Phase first: gate opened" in text
    assert "Phase second: gate closed" in text
    assert "of the ended cells failed: 4 cells" in text
    assert "The campaign is done: 4 cells" in text
    assert SECRET not in done.stdout + done.stderr
    assert leaked(user.folder) == []


def test_a_spent_budget_is_reported(user: User, receiver: Receiver) -> None:
    user.write(STUDY)
    user.run("run", "study.yaml", "--cpu-slots", "1", code=None)
    assert "the budget of 1e-07 USD is spent" in receiver.text()


def test_two_workers_send_each_message_once(user: User, receiver: Receiver) -> None:
    gate = user.write("", "gate")
    user.write(SHARED.replace("GATE", str(gate)))
    shared = ("--ledger", "sqlite:shared.db", "--cpu-slots", "1")
    first = user.start("work", "study.yaml", *shared)
    until(lambda: _running(user) == 1)
    second = user.start("work", *shared, "--trust-campaign", "--results", "other")
    until(lambda: _running(user) == 2)
    gate.unlink()
    end_of(first, 1)
    end_of(second, 1)
    lines = receiver.text().splitlines()
    assert sorted(line.split(":")[0].lstrip("0123456789") for line in lines) == [
        "% of the ended cells failed",
        "Phase first",
        "Phase second",
        "The campaign is done",
    ]


def _running(user: User) -> int:
    """How many cells run, by the shared ledger; 0 while there is none."""
    done = user.run("status", "--ledger", "sqlite:shared.db", "--json", code=None)
    return int(json.loads(done.stdout)["running"]) if done.returncode == 0 else 0


def test_a_receiver_that_hangs_or_refuses_hurts_no_run(user: User, receiver: Receiver) -> None:
    user.write(GATES.replace('    gate: "min(overall_score) >= 0.9"\n', ""))
    receiver.free.clear()
    user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    assert receiver.asked.is_set()
    assert receiver.messages == []
    status = json.loads(user.run("status", "study.yaml", "--json", code=None).stdout)
    assert (status["success"], status["failed"]) == (1, 3)

    receiver.free.set()
    receiver.status = 500
    user.run("retry", "study.yaml", "--yes", code=None)
    done = user.run("run", "study.yaml", "--cpu-slots", "1", code=1)
    why = "a notification did not reach 1 of 1 addresses: HTTP 500 Internal Server Error"
    assert why in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert leaked(user.folder) == []


def test_a_run_with_nothing_to_run_sends_what_an_earlier_one_could_not(
    user: User, receiver: Receiver
) -> None:
    user.write(PLAIN)
    receiver.status = 500
    user.run("run", "study.yaml", "--cpu-slots", "1")
    receiver.status = 200
    receiver.messages.clear()
    for _ in range(2):  # the second one has nothing to send
        done = user.run("run", "study.yaml", "--cpu-slots", "1")
        assert "all cells are done; nothing was run" in done.stdout
        assert receiver.text() == "The campaign is done: 1 cell, 1 success"


def test_addresses_that_are_absent_are_named_before_anything_runs(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write(GATES)
    monkeypatch.delenv("CHAT")
    done = user.run("run", "study.yaml", "--cpu-slots", "1", code=2)
    assert "notify.to" in done.stderr
    assert "the environment has no CHAT; set it to addresses of Apprise" in done.stderr
    assert not list(user.folder.rglob("cell.json"))


def test_a_lost_host_is_reported_with_the_addresses_of_a_private_file(
    receiver: Receiver, tmp_path: Path
) -> None:
    file = tmp_path / "addresses"
    file.write_text(f"{receiver.address}\nnothing://{SECRET}\n")
    file.chmod(0o600)
    study = study_of(tmp_path, "file:addresses")
    study.open_ledger().close()
    warnings: list[str] = []
    with notifying(study, warnings.append) as notifier:
        assert notifier
        notifier(Notice(kind="host_lost", message="no route", data={"host": "lab2"}), Progress())
        notifier.close(timeout=120)
    assert receiver.text() == "Host lab2: no route"
    assert warnings == [
        "1 of 2 addresses of notify.to are unknown to Apprise; see its list of services"
    ]


def test_a_message_that_a_slow_service_took_is_marked_when_it_is_sent_again(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT", receiver.address)
    study = study_of(tmp_path, "env:CHAT")
    study.open_ledger().close()
    warnings: list[str] = []
    receiver.free.clear()
    with notifying(study, warnings.append) as notifier:
        assert notifier
        notifier(Notice(kind="host_lost", message="no route", data={"host": "lab2"}), Progress())
        assert receiver.asked.wait(120)
        notifier.close(timeout=0.1)
    assert warnings == ["a notification did not reach 1 of 1 addresses: no answer"]
    receiver.free.set()
    with notifying(study, warnings.append) as notifier:
        assert notifier
        notifier.close(timeout=120)
    until(lambda: len(receiver.messages) == 2)
    texts = sorted(one["message"] for one in receiver.messages)
    assert texts == ["Host lab2: no route", "Host lab2: no route (perhaps sent before)"]


def test_a_worker_without_addresses_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAT", raising=False)
    study = study_of(tmp_path, "env:CHAT")
    warnings: list[str] = []
    with notifying(study, warnings.append, is_worker=True):
        pass
    assert warnings == [
        "this worker sends no notifications: the environment has no CHAT; set it to addresses of "
        "Apprise"
    ]


def study_of(folder: Path, to: str) -> Study:
    """A campaign that sends messages."""
    campaign = Campaign(
        name="study",
        file=folder / "study.yaml",
        results=folder / "results",
        matrix=Matrix(models=(), configs=(), workloads=()),
        notify=NotificationSettings(to=(to,)),
    )
    return open_study(campaign)


def test_a_service_that_answers_too_late_has_failed(receiver: Receiver) -> None:
    receiver.free.clear()
    assert send([receiver.address], "title", "body", timeout=0.01).failed == 1
    receiver.free.set()
    receiver.status = 500
    assert send([receiver.address], "title", "body").failed == 1
