"""A campaign whose results go to a place, as a user has it."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.compat.import_cells import importing, publish_results, sealed_outcome
from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.study import open_study

from .conftest import MOCK, User, until

CPU = ("--cpu-slots", "1")


@pytest.fixture
def srv(user: User) -> Path:
    user.write(f"results: file://{user.folder}/srv\n{MOCK}")
    return user.folder / "srv"


def stored(srv: Path) -> list[str]:
    root = srv / "study"
    return sorted(str(file.parent.relative_to(root)) for file in root.glob("*/*/*/cell.json"))


def test_results_stay_here_and_go_to_the_place_as_soon_as_it_is_there(
    user: User, srv: Path
) -> None:
    output = user.run("run", "study.yaml", *CPU, code=1).stdout
    assert f"2 results are not uploaded to file://{srv} yet" in output
    assert "is it mounted?" in output
    assert len(user.published()) == 2
    assert user.json("status", "study.yaml")["unsent"] == 2
    srv.mkdir()
    user.run("run", "study.yaml", *CPU)
    assert stored(srv) == sorted(user.published())
    assert user.json("status", "study.yaml")["unsent"] == 0
    assert "nothing was run" in user.run("run", "study.yaml", *CPU).stdout


@pytest.mark.parametrize("verb", ["rebuild", "run"])
def test_a_new_ledger_learns_again_what_the_store_has(user: User, srv: Path, verb: str) -> None:
    srv.mkdir()
    user.run("ledger", "init", "study.yaml")
    shutil.copy(user.results / "ledger.db", user.folder / "backup.db")
    user.run("run", "study.yaml", *CPU)
    for file in user.results.glob("ledger.db*"):
        file.unlink()
    if verb == "rebuild":
        user.run("ledger", "rebuild", "study.yaml")
    else:
        (user.folder / "backup.db").rename(user.results / "ledger.db")
    user.run("run", "study.yaml", *CPU)
    at = ("study.yaml", "--results", "elsewhere", "--ledger", f"sqlite:{user.results}/ledger.db")
    output = user.json("status", *at)
    assert output["gone"] == []
    assert output["elsewhere"] == dict.fromkeys(user.published(), f"file://{srv}")


@pytest.mark.parametrize(
    ("url", "output"),
    [
        ("rsnc://host/dir", "did you mean 'rsync'?"),
        ("rsync://me:hush-hush@host/dir", "holds a password"),
        ("rsync://host", "write rsync://user@host/folder"),
        ("file://other/srv", "write file:///srv/results"),
    ],
)
def test_a_place_that_is_none_is_a_mistake_of_the_file(user: User, url: str, output: str) -> None:
    user.write(f"results: {url}\n{MOCK}")
    refused = user.run("run", "study.yaml", code=2).stderr
    assert "line 1  results" in refused
    assert output in refused
    assert "hush-hush" not in refused


def test_an_interrupted_upload_leaves_the_summary(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        user.write(f"results: rsync://nobody@127.0.0.1:{port}/srv\n{MOCK}")
        running = user.start("run", "study.yaml", *CPU)
        until(lambda: len(user.published()) == 2)
        time.sleep(2)  # its slots end in less
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=60)
    assert "2 results are not uploaded to rsync://" in output, output + errors
    assert (user.results / "execution_summary.json").exists()
    assert (user.results / "report.md").exists()


def test_the_next_run_uploads_what_was_imported(user: User) -> None:
    nas = user.folder / "nas"
    nas.mkdir()
    user.write(f"results: {nas.as_uri()}\n{MOCK}")
    user.run("run", "study.yaml", "--only", "models=m1")
    study = open_study(load_campaign(user.folder / "study.yaml"))
    cell = study.cells()[1]

    def seal(folder: AttemptFolder, claim: Claim, cell: Cell, _: None) -> Outcome:
        score = {"overall": 1.0, "per_sample": [], "tasks": {}, "summary": {}}
        verdict = Verdict(score=score, seconds={}, provenance={"origin": "imported"})
        return sealed_outcome(folder, claim, cell, verdict)

    with importing(study, [cell]) as (ledger, runner):
        publish_results(ledger, study.layout, [(cell, None)], seal, runner=runner)
    assert len([*nas.rglob("cell.json")]) == 1
    user.run("run", "study.yaml")
    assert len([*nas.rglob("cell.json")]) == 2
    assert "nothing was run" in user.run("run", "study.yaml").stdout
