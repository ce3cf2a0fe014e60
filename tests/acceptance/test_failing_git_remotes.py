"""Workers on a git remote that hangs, refuses pushes and comes back."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study
from repositories import make_bare

from .conftest import User, end_of, samples_kept, until, wait_for_line
from .hurried import start_hurried, start_with

CELLS = """
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 4, act: wait, at: 2, shared: GATE}}]
"""
AT = ("study.yaml", "--ledger", "git+file:lab.git")
NO_LEDGER = 3  # exit code


@pytest.fixture
def bare(user: User) -> Path:
    return make_bare(user.folder / "lab.git")


@pytest.fixture
def gate(user: User) -> Path:
    """The file that holds the cell at its third sample while it exists."""
    gate = user.write("", "gate")
    user.write(CELLS.replace("GATE", str(gate)))
    return gate


def hook(bare: Path, script: str) -> Path:
    """Install a hook that runs before each push is taken in."""
    file = bare / "hooks" / "pre-receive"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def events_of(user: User) -> Counter[str]:
    """How many events of each kind the ledger has."""
    campaign = load_campaign(user.folder / "study.yaml")
    ledger = open_study(campaign, ledger=f"git+file://{user.folder}/lab.git").open_existing_ledger()
    assert ledger is not None
    with closing(ledger):
        return Counter(event.kind for event in ledger.events())


def outbox(user: User) -> list[Path]:
    return [*user.results.glob(".ledger/*/outbox/*.json")]


def test_a_cell_that_ends_during_an_outage_is_on_disk_and_does_not_run_again(
    user: User, bare: Path, gate: Path
) -> None:
    run = user.start("run", *AT, "--cpu-slots", "1")
    until(lambda: samples_kept(user) == 2)
    refusal = hook(bare, "echo no pushes now >&2; exit 1")
    gate.unlink()
    until(lambda: outbox(user))
    run.kill()
    run.communicate()
    refusal.unlink()
    user.run("run", *AT, "--cpu-slots", "1")
    assert outbox(user) == []
    assert len(user.published()) == 1
    events = events_of(user)
    assert (events["claimed"], events["finished"]) == (1, 1)


@pytest.mark.parametrize("profile", ["local", "hosted"])
@pytest.mark.parametrize("fault", ["away", "refuses"])
def test_a_run_ends_if_its_remote_stays_away_and_the_next_verb_that_writes_sends_its_result(
    user: User, bare: Path, gate: Path, fault: str, profile: str
) -> None:
    at = ("study.yaml", "--ledger", f"git+file:lab.git?profile={profile}")
    run = start_hurried(user, "run", *at, "--cpu-slots", "1")
    until(lambda: samples_kept(user) == 2)
    if fault == "away":
        elsewhere = bare.rename(user.folder / "away.git")
    else:
        refusal = hook(bare, "echo no pushes now >&2; exit 1")
    gate.unlink()
    _, error = run.communicate(timeout=120)
    assert run.returncode == NO_LEDGER, error
    assert len(outbox(user)) == 1
    if fault == "away":
        elsewhere.rename(bare)
    else:
        refusal.unlink()
    user.run("reap", *at, code=None)
    assert outbox(user) == []
    user.run("run", *AT, "--cpu-slots", "1")
    assert len(user.published()) == 1
    events = events_of(user)
    assert (events["claimed"], events["finished"], events["released"]) == (1, 1, 0)


def test_sigterm_ends_a_run_whose_remote_hangs(
    user: User, bare: Path, gate: Path, tmp_path: Path
) -> None:
    run = start_hurried(user, "run", *AT, "--cpu-slots", "1")
    until(lambda: samples_kept(user) == 2)
    hanging = tmp_path / "hanging"
    refusal = hook(bare, f"touch {hanging}; exec sleep 120")
    gate.unlink()
    until(hanging.exists)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=90)
    refusal.unlink()
    user.run("run", *AT, "--cpu-slots", "1")
    assert len(user.published()) == 1
    assert events_of(user)["claimed"] == 1


def test_a_run_whose_first_push_is_refused_waits(user: User, bare: Path, gate: Path) -> None:
    gate.unlink()
    refused = user.folder / "refused"
    refusal = hook(bare, f"echo >>{refused}; echo no pushes now >&2; exit 1")
    run = user.start("run", *AT, "--cpu-slots", "1")
    until(lambda: refused.exists() and len(refused.read_text()) > 1)
    refusal.unlink()
    end_of(run)
    assert len(user.published()) == 1


@pytest.mark.parametrize("says", ["no pushes now", "protected branch"])
def test_a_run_whose_first_push_is_refused_for_good_soon_says_why(
    user: User, bare: Path, gate: Path, says: str
) -> None:
    hook(bare, f"echo {says} >&2; exit 1")
    soon = "from benchfleet.ledger.git import sync; sync._CREATE_TIMEOUT_S = 3.0"
    run = start_with(user, soon, "run", *AT, "--cpu-slots", "1")
    _, error = run.communicate(timeout=60)
    assert run.returncode == NO_LEDGER
    assert (
        "git+file:lab.git rejects the push: [remote rejected] (pre-receive hook declined)" in error
    )
    assert says in error


def test_a_run_says_that_its_start_waits_for_the_ledger_and_why(
    user: User, bare: Path, gate: Path
) -> None:
    gate.unlink()
    user.run("run", *AT, "--cpu-slots", "1")
    user.write((user.folder / "study.yaml").read_text().replace("samples: 4", "samples: 5"))
    refusal = hook(bare, "echo no pushes now >&2; exit 1")
    run = start_hurried(user, "run", *AT, "--cpu-slots", "1")
    waits = "waiting for the ledger, which has not taken this run in yet"
    line = wait_for_line(run, f"{waits}: the ledger git+file:lab.git rejects the push")
    assert "no pushes now" in line
    refusal.unlink()
    end_of(run)
    assert len(user.published()) == 2
