"""A whole study over three machines that ssh reaches, one of which loses its power half way."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from campaign_s1 import CELLS, HOSTS, SOON, measured_alike, until, write
from sshd import Sshd

from .conftest import COMMAND, User


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sshd]]:
    """Three hosts, each behind an sshd of its own."""
    with contextlib.ExitStack() as ends:
        made = {}
        for name in HOSTS:
            made[name] = Sshd(tmp_path_factory.mktemp(name))
            ends.callback(made[name].kill)
            made[name].start()
        yield made


def inventory(folder: Path, fleet: dict[str, Sshd]) -> None:
    """The machines, with a slot on each."""
    hosts = {}
    for name, sshd in fleet.items():
        output = asdict(sshd.host(name, cpu_slots=1))
        hosts[name] = {key: value for key, value in output.items() if value and key != "name"}
    (folder / "machines.json").write_text(json.dumps({"hosts": hosts}))


def test_from_probe_to_combined_results(user: User, fleet: dict[str, Sshd]) -> None:
    hold = user.folder / "hold"
    hold.touch()
    study = user.folder / "study"
    write(study, hold)
    inventory(study, fleet)
    user = User(study)
    words = ("probe", "study.yaml", "--machines", "machines.json", "--quick", "--out", "reports")
    output = user.run(*words).stdout
    assert [line.partition(":")[0] for line in output.splitlines()] == list(HOSTS)
    measured_alike(study / "reports")
    total = sum(CELLS.values())
    plan = user.json("assign", "study.yaml", "--reports", "reports", "--effort", "0.1")
    assert {one["machine"] for one in plan["cells"]} == set(HOSTS)
    assert len(plan["cells"]) == total

    log = open(study / "run.log", "w")  # noqa: SIM115 - the process has it
    with log:
        run = subprocess.Popen(
            [*COMMAND, "run", "study.yaml", "--machines", "machines.json", "--log-json"],
            cwd=study,
            env=user.environment,
            stdout=log,
            stderr=log,
        )
    try:
        text = (study / "run.log").read_text
        until(lambda: _busy(text()) == len(HOSTS), text)
        planned = {one["cell"]: one["machine"] for one in plan["cells"]}
        begun = _begun(text())
        elsewhere = [cell for cell, host in begun.items() if planned[cell] != host]
        assert len(elsewhere) <= len(begun) / 3, text()  # of a machine that was slower to begin
        fleet["lab3"].kill()
        until(lambda: '"host_lost"' in text(), text)
        lost = user.json("reassign", "study.yaml", "--failed-machine", "lab3", "--yes")
        assert lost["reassigned"] == []  # what ran there this run holds, and shares out itself
        assert lost["only_planned"] == sum(lost["moved"].values()) > 0
        assert set(lost["moved"]) | set(lost["files"]) == {"lab1", "lab2"}
        hold.unlink()
        assert run.wait(SOON) == 1, text()
    finally:
        run.kill()
        run.wait()
    assert "the gate of phase e1 is closed" in text()
    done = total - CELLS["e2"]
    gates = user.json("gate", "show", "study.yaml", code=1)["phases"]
    assert [one["state"] for one in gates] == ["passed", "passed", "closed", "held"]
    status = user.json("status", "study.yaml")
    assert (status["success"], status["pending"], status["running"]) == (done, CELLS["e2"], 0)
    again = ("probe", "--machines", "machines.json", "--quick", "--hosts", "lab2,lab3", "--json")
    asked = {one["host"]: one for one in user.json(*again, code=1)["hosts"]}
    assert asked["lab2"]["report"]["hostname"] == "lab2"
    assert "refused" in asked["lab3"]["problem"]  # what is left of it
    verified = user.json("verify", "study.yaml", code=1)  # e2 is missing
    assert (verified["results"], verified["wrong"]) == (done, [])
    found = [json.loads(cell) for cell in user.published().values()]
    assert len(found) == done
    hosts = [one["provenance"]["host"] for one in found]
    assert set(hosts) <= set(HOSTS)
    assert {"lab1", "lab2"} <= set(hosts)
    assert "E1-3" in user.run("report", "study.yaml").stdout


def _begun(log: str) -> dict[str, str]:
    """On which host each cell was begun."""
    slots, found = {}, {}
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            output = json.loads(line)
            if output["kind"] == "slot_opening":
                slots[output["slot"]] = output["data"]["devices"].partition("/")[0]
            elif output["kind"] == "cell_started":
                found[output["cell"]] = slots[output["slot"]]
    return found


def _busy(log: str) -> int:
    """How many slots, of which each host has one, have a cell of e0 at hand."""
    found = set()
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            output = json.loads(line)
            if output["kind"] == "cell_started" and "E0-" in output["cell"]:
                found.add(output["slot"])
    return len(found)
