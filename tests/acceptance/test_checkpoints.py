"""A series of checkpoints: cells join the run as checkpoints become complete."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.study import open_study

from .conftest import User, end_of, until
from .hurried import start_with

STUDY = """\
campaign: study
matrix:
  models: [{name: run7, adapter: none, checkpoints: "out/step-*", every: 1000}]
  benchmarks:
    - command: {name: eval, argv: [python3, score.py, "{model_path}", "{result}"]}
"""
SCRIPT = """\
import json, pathlib, sys
step = int(pathlib.Path(sys.argv[1], "step").read_text())
samples = [{"id": n, "score": float(n * 100 < step)} for n in range(40)]
json.dump({"score": step / 4000, "samples": samples}, open(sys.argv[2], "w"))
"""

LOOKS_OFTEN = """\
from benchfleet.cli.shared import checkpoint_watch
checkpoint_watch.POLL_S = 0.3
"""


def checkpoint(user: User, step: int) -> None:
    """A checkpoint that was written a minute ago, as a whole."""
    draft = user.folder / f"draft-{step}"
    draft.mkdir()
    (draft / "step").write_text(str(step))
    for path in (draft / "step", draft):
        os.utime(path, (time.time() - 60,) * 2)
    (user.folder / "out").mkdir(exist_ok=True)
    draft.rename(user.folder / "out" / f"step-{step}")


def result(user: User, step: int) -> Path:
    return user.results / f"run7-{step}" / "dense" / "eval" / "cell.json"


@pytest.mark.parametrize("verb", ["run", "work"])
def test_checkpoints_join_a_run_as_they_become_complete(user: User, verb: str) -> None:
    user.write(STUDY)
    user.write(SCRIPT, "score.py")
    words = (verb, "study.yaml", "--cpu-slots", "1", "--watch", "--log-json")
    run = start_with(user, LOOKS_OFTEN, *words)
    assert run.stderr
    assert "no complete checkpoint matches" in run.stderr.readline()
    checkpoint(user, 1000)
    until(result(user, 1000).exists)
    checkpoint(user, 1500)  # 'every' leaves it out
    checkpoint(user, 3000)
    checkpoint(user, 2000)
    until(lambda: result(user, 2000).exists() and result(user, 3000).exists())
    run.send_signal(signal.SIGINT)
    end_of(run, 130)
    report = (user.results / "report.md").read_text()
    assert all(f"run7-{step}" in report for step in (1000, 2000, 3000))
    assert "run7-1500" not in report
    chart = user.folder / "steps.svg"
    user.run("report", "study.yaml", "--chart", "steps", "--output", str(chart))
    assert "Score against training step" in chart.read_text()


def test_the_newest_checkpoint_runs_first(user: User) -> None:
    user.write(STUDY)
    user.write(SCRIPT, "score.py")
    for step in (2000, 10000, 9000):
        checkpoint(user, step)
    run = user.start("run", "study.yaml", "--cpu-slots", "1", "--watch", "--idle-exit", "1")
    end_of(run)
    ledger = open_study(load_campaign(user.folder / "study.yaml")).open_existing_ledger()
    assert ledger is not None
    with closing(ledger):
        claimed = [event.fingerprint for event in ledger.events(kinds=["claimed"])]
        models = {str(record.fingerprint): record.id.partition("/")[0] for record in ledger.cells()}
    assert [models[one] for one in claimed] == ["run7-10000", "run7-9000", "run7-2000"]


def test_options_that_do_not_go_together_are_refused(user: User) -> None:
    user.write(SCRIPT, "score.py")
    user.write(STUDY.replace('checkpoints: "out/step-*", every: 1000', "model: m"))
    done = user.run("run", "study.yaml", "--watch", code=2)
    assert "the campaign names no checkpoints" in done.stderr
    done = user.run("run", "study.yaml", "--idle-exit", "5", code=2)
    assert "add --watch" in done.stderr
    done = user.run("work", "--ledger", "sqlite:///x.db", "--watch", code=2)
    assert "needs the campaign's file" in done.stderr
