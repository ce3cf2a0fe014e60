"""``benchfleet doctor``: what it finds of campaigns and hosts, and the commands it lists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchfleet.domain.host import Host
from sshd import Sshd
from stand_in_servers import llama_server

from .conftest import MOCK, User


def levels(user: User, *words: str, code: int) -> dict[str, str]:
    """How each thing stands, by what it is."""
    output = user.json("doctor", *words, code=code)
    assert output["fit"] == (code == 0)
    return {one["what"]: one["level"] for one in output["checks"]}


def test_a_campaign_that_can_be_run_is_found_fit(user: User) -> None:
    user.write(MOCK)
    output = user.run("doctor", "study.yaml").stdout
    assert "✓ campaign: study, 2 cells" in output
    assert "created by the first run" in output
    assert "fit to run" in output.splitlines()[-1]
    assert not user.results.exists()
    user.run("run", "study.yaml")
    assert "0 cells are running" in user.run("doctor", "study.yaml").stdout


def test_what_would_make_a_run_fail_is_a_problem_with_its_fix(user: User) -> None:
    user.write(MOCK.replace("[mock_benchmark]", "[mock_bench]"))
    output = user.run("doctor", "study.yaml", code=1).stdout
    assert "✗ campaign: line 7, matrix.benchmarks[0]: no benchmark 'mock_bench'" in output
    assert "a run would fail" in output.splitlines()[-1]
    user.write(MOCK.replace("name: m1", "name: m1, needs: {gpus: 8}"))
    assert levels(user, "study.yaml", "--gpus", "7", code=1)["devices"] == "problem"
    assert levels(user, "study.yaml", code=1)["cell m1/dense/mock_benchmark"] == "problem"
    user.write(MOCK)
    user.results.mkdir(parents=True)
    (user.results / "ledger.db").write_text("no database")
    assert levels(user, "study.yaml", code=1)["ledger"] == "problem"
    user.write(f"results: file://{user.folder}/not-mounted\n{MOCK}")
    assert levels(user, "study.yaml", "--ledger", "sqlite:x.db", code=0)["place"] == "warning"
    blocked = user.write("", "blocked")
    assert levels(user, "study.yaml", "--results", str(blocked), code=1)["results"] == "problem"
    assert "--machines" in user.run("doctor", "--commands", code=2).stderr


def test_notifications_without_addresses_are_a_problem_as_they_are_for_a_run(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("apprise", reason="Apprise is not installed")
    user.write(MOCK + "notify: {to: env:CHAT}\n")
    output = user.run("doctor", "study.yaml", code=1).stdout
    assert "✗ notifications: the environment has no CHAT" in output
    assert "the environment has no CHAT" in user.run("run", "study.yaml", code=2).stderr
    monkeypatch.setenv("CHAT", "json://127.0.0.1:9 json://127.0.0.1:8")
    assert "✓ notifications: addresses found: 2" in user.run("doctor", "study.yaml").stdout


def test_mistakes_in_an_inventory_are_problems_in_one_line_each(user: User) -> None:
    user.write(MOCK)
    output = user.run("doctor", "study.yaml", "--machines", "nothere.yaml", code=1).stdout
    assert "✗ machines: file not found\n    fix it in nothere.yaml\n" in output
    assert "nothing was run" not in output
    user.run("run", "study.yaml")
    (user.results / "ledger.db").unlink()
    output = user.run("doctor", "study.yaml", code=1).stdout
    assert "A new ledger would lack their history. pass the right ledger with --ledger" in output
    assert "\ufffd" not in output


SERVED = """\
campaign: study
matrix:
  models: [{name: gguf, adapter: llama_cpp, path: ./tiny.gguf, server: {args: [--ctx-size, 64]}}]
  benchmarks: [mock_benchmark]
"""


def test_the_command_lines_of_servers_that_would_be_started_are_listed(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = llama_server(user.folder / "bin")
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    user.write("weights", "tiny.gguf")
    user.write(SERVED)
    user.inventory(Host(name="lab1", address="192.0.2.1", python="python3"))
    words = ("doctor", "study.yaml", "--machines", "machines.json", "--commands")
    server = f"-m {user.folder}/tiny.gguf --host 127.0.0.1 --port {{port}} --ctx-size 64"
    assert f"server of gguf: llama-server {server}" in user.run(*words).stdout


class CommandRecorder:
    """A host that records each command."""

    def __init__(self, folder: Path) -> None:
        self.sshd = Sshd(folder)
        self._log = folder / "recorder"
        script = folder / "tell"
        script.write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$SSH_ORIGINAL_COMMAND" >> {self._log}\n'
            'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        script.chmod(0o755)
        config = folder / "sshd_config"
        text = config.read_text().replace("SetEnv ", "SetEnv PIP_NO_INDEX=1 ")
        config.write_text(f"{text}ForceCommand {script}\n")

    def commands(self) -> list[list[str]]:
        """The words of each."""
        output = self._log.read_text().rstrip("\0").split("\0")
        return [shlex.split(one.removeprefix("exec ")) for one in output]


@pytest.fixture
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandRecorder]:
    made = CommandRecorder(tmp_path_factory.mktemp("recorder"))
    try:
        made.sshd.start()
        yield made
    finally:
        made.sshd.kill()


def is_listed(words: list[str], listed: list[list[str]]) -> bool:
    """Whether a command is one of the list, in which <…> stands for whatever it is."""
    for known in listed:
        if known[:2] == ["rsync", "--server"] == words[:2]:
            return True
        pattern = "\0".join(re.sub(r"<[a-z ]+>", "\1", word) for word in known)
        if re.fullmatch(re.escape(pattern).replace("\1", "[^\0]+"), "\0".join(words)):
            return True
    return False


STUDY = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks:
    - command: {name: mine, argv: [python3, mine.py, "{result}"], files: [mine.py], metric: score}
"""
MINE = "import json, sys\njson.dump({'score': 1.0}, open(sys.argv[1] + '/metrics.json', 'w'))\n"


def test_every_command_that_runs_on_a_host_was_printed_before(
    user: User, recorder: CommandRecorder
) -> None:
    """hosts check, probe, a run that sends files, a bootstrap that fails for want of an index."""
    user.write(STUDY)
    user.write(MINE, "mine.py")
    bare = recorder.sshd.host("bare", python="", cpu_slots=1)
    user.inventory(recorder.sshd.host("ready", cpu_slots=1), bare)
    shown = user.run("doctor", "study.yaml", "--machines", "machines.json", "--commands").stdout
    assert "mine: python3 mine.py" in shown
    listed = user.json("doctor", "study.yaml", "--machines", "machines.json", "--commands")
    known = [one["words"] for host in listed["hosts"].values() for one in host]
    user.run("hosts", "check", "machines.json", code=1)
    user.run("run", "study.yaml", "--machines", "machines.json", "--hosts", "ready", code=None)
    user.run("probe", "--machines", "machines.json", "--hosts", "ready", "--quick")
    user.run("hosts", "bootstrap", "machines.json", "--hosts", "bare", "--yes", code=1)
    ran = recorder.commands()
    assert [words for words in ran if not is_listed(words, known)] == []
    programs = {word for words in ran for word in words if "import" in word}
    for part in ("provision_receiver import receive", "slot.launch", "machines.facts"):
        assert any(part in program for program in programs), part
    assert any("pip" in words for words in ran)
    assert any("probe" in words for words in ran)
    checks = levels(user, "--machines", "machines.json", code=0)
    assert (checks["host ready"], checks["host bare"]) == ("ok", "warning")
    assert checks["hosts"] == "warning"  # both are one machine
