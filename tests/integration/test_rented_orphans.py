"""Machines of runs that died, as run and status name them to a user, with what returns them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.cli.main import main
from benchfleet.domain.rental import Rental
from benchfleet.runs.process import Process
from benchfleet.testing.simulated_cloud import Cloud
from vast_account import LEDGER, offer, record_created, rental, vast_account


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(offers=[offer(11, 400_000)])


@pytest.fixture
def machines(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with vast_account(cloud, tmp_path, monkeypatch) as file:
        yield file


def orphaned(machines: Path) -> Rental:
    """A rental of a run that died on this machine."""
    url = machines.read_text().split("'")[1]
    process = {**vars(Process.own()), "name": "a process that ended"}
    inventory = str(machines.absolute())
    return replace(rental(url), entry="r4090", process=process, inventory=inventory)


def test_run_and_status_name_the_machines_of_a_dead_run(
    machines: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, used = (cloud.add(cloud.offers[0], "", "me") for _ in range(2))
    dead.label, used.label = f"bf-{LEDGER}-aaaaaaaa", f"bf-{LEDGER}-eeeeeeee"
    assert main(["run", "study.yaml"]) == 0
    orphan = orphaned(machines)
    alive = replace(orphan, id="eeeeeeee", process=vars(Process.own()))
    record_created({dead.id: orphan, used.id: alive})
    command = "benchfleet return study.yaml r4090-aaaaaaaa --machines machines.yaml"
    named = f"r4090-aaaaaaaa  (created; vast {dead.id}; 0.400 USD/h; its run died)"
    capsys.readouterr()
    more = ["--only", "model=m1", "--limit", "1"]
    for words in ([], ["--rent", "--machines", "machines.yaml"], more):  # first: all are done
        assert main(["run", "study.yaml", *words]) == 0
        assert capsys.readouterr().err.splitlines()[:3] == [
            "warning: this run does not return the rented machines of a run that died:",
            f"  {named}",
            f"return them with: {command}",
        ]
    assert main(["status", "study.yaml"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if "r4090" in line] == [
        f"  rented   {named}",
        f"  rented   r4090-eeeeeeee  (created; vast {used.id}; 0.400 USD/h)",
        f"return them with: {command}",
    ]
    assert main(["status", "study.yaml", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rented"]
    assert [row["owner_died"] for row in rows] == [True, False]
    assert main([*shlex.split(command)[1:], "--yes"]) == 0
    assert [one.label for one in cloud.living] == [used.label]
    capsys.readouterr()
    assert main(["run", "study.yaml"]) == 0
    assert "died" not in capsys.readouterr().err
