"""Ctrl-C, kill -9 and two runners at once: nothing is lost and nothing runs twice."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchfleet.domain.humanize import counted

from .conftest import User, samples_kept, until
from .hurried import start_with

SLOW = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  configs: {dense: null}
  benchmarks: [{_hostile: {samples: 60, seconds: 0.02}}]
defaults: {repeats: 6}
"""


SOON_AGAIN = """\
from benchfleet.runner.attempt import retry_policy
retry_policy.FIRST_DELAY_S = 0.2
"""


def held(gate: Path) -> str:
    """SLOW, none of whose cells goes further than half of its samples while this file is there."""
    return SLOW.replace("seconds: 0.02", f"seconds: 0.02, act: wait, at: 30, shared: {gate}")


def supervisors_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """A runner's children: each supervises a slot."""
    return psutil.Process(process.pid).children()


def slots_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The slots themselves, which are children of their supervisors."""
    found = []
    for supervisor in supervisors_of(process):
        with suppress(psutil.NoSuchProcess):  # it ended with its slot meanwhile
            found += supervisor.children()
    return found


def family_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Supervisors, slots and what these started."""
    return psutil.Process(process.pid).children(recursive=True)


def finished_and_content(user: User) -> dict[str, list[dict[str, object]]]:
    """The answers of every published cell, without what differs from run to run."""
    found = {}
    for path in user.published():
        lines = (user.results / path / "samples.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        found[path] = [{**record, "seconds": 0, "columns": {}} for record in records]
    return found


@cache
def undisturbed() -> dict[str, list[dict[str, object]]]:
    """What a run that nobody disturbs ends with."""
    with tempfile.TemporaryDirectory() as folder:
        user = User(Path(folder))
        user.write(SLOW.replace("seconds: 0.02", "seconds: 0"))
        user.run("run", "study.yaml", "--cpu-slots", "1")
        return finished_and_content(user)


def events_of(user: User, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """The fingerprint and the data of every event of this kind in the ledger."""
    import sqlite3

    ledger = sqlite3.connect(user.results / "ledger.db")
    wanted = "select fingerprint, data from event where kind = ?"
    rows = ledger.execute(wanted, (kind,)).fetchall()
    ledger.close()
    return [(fingerprint, json.loads(data)) for fingerprint, data in rows]


def attempts_that_finished(user: User) -> list[str]:
    """The fingerprint of every attempt that the ledger has as finished well."""
    ended = events_of(user, "finished")
    return [cell for cell, data in ended if data["outcome"]["state"] == "success"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_keeps_the_samples_and_the_next_run_goes_on(
    user: User, number: signal.Signals
) -> None:
    user.write(SLOW)
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) > 10)
    family = family_of(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "after the sample at hand" in out
    assert "nothing is lost; continue with: benchfleet run study.yaml" in out
    assert not any(each.is_running() for each in family)
    status = user.json("status", "study.yaml")
    assert status["running"] == 0
    kept = samples_kept(user)
    assert kept > 10
    assert sum(status["kept_samples"].values()) == kept
    text = user.run("status", "study.yaml").stdout
    assert f"  {status['kept_samples']['m1/dense/_hostile/r0']} samples kept\n" in text
    assert "continue after these samples: benchfleet run study.yaml\n" in text
    again = user.run("run", "study.yaml").stdout
    assert re.search(
        r"↻ m1/dense/_hostile/r0  resumes after \d+ samples of an earlier attempt", again
    )
    resumed = [
        json.loads(content)["provenance"]["resumed_samples"]
        for content in user.published().values()
    ]
    assert sum(resumed) >= kept
    assert finished_and_content(user) == undisturbed()


def test_two_signals_end_at_once_and_lose_nothing(user: User) -> None:
    user.write(SLOW.replace("seconds: 0.02", "act: hang, at: 5"))
    process = user.start("run", "study.yaml")
    until(lambda: samples_kept(user) >= 10)
    family = family_of(process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    while "after the sample at hand" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ended now" in out
    assert not any(each.is_running() for each in family)
    assert user.json("status", "study.yaml")["pending"] == 6
    assert samples_kept(user) >= 10


def test_a_runner_killed_leaves_no_slot_and_the_next_run_completes(user: User) -> None:
    user.write(SLOW)
    process = user.start("run", "study.yaml")
    until(lambda: len(user.published()) >= 1)
    family = family_of(process)
    process.kill()
    process.communicate()
    psutil.wait_procs(family, timeout=60)
    assert not any(each.is_running() for each in family)
    before = user.published()
    output = user.run("run", "study.yaml")
    assert events_of(user, "reaped") == []  # it waits for no lease
    released = events_of(user, "released")
    assert {data["reason"] for _, data in released} == {"its runner was killed"}
    assert (
        f"released {counted(len(released), 'cell')} of a run that ended"
        in output.stdout + output.stderr
    )
    after = user.published()
    assert before.items() <= after.items()
    assert len(after) == 6
    finished = attempts_that_finished(user)
    assert len(finished) == len(set(finished)) == 6
    assert finished_and_content(user) == undisturbed()
    used = user.json("status", "study.yaml")["used"]
    assert (used["attempts"], used["attempts_unrecorded"]) == (6 + len(released), len(released))


def test_a_cell_killed_many_times_in_the_middle_ends_as_if_undisturbed(user: User) -> None:
    """Two cells side by side; each loses the slots of its first three attempts."""
    gate = user.write("", "gate")
    user.write(held(gate).replace("repeats: 6", "repeats: 2, limits: {tries: 20}"))
    process = start_with(user, SOON_AGAIN, "run", "study.yaml", "--cpu-slots", "2")
    for attempt in (1, 2, 3):
        until(lambda number=attempt: cells_beyond(user, number, 7 * number) == 2)  # type: ignore[misc]
        supervisors, slots = supervisors_of(process), slots_of(process)
        assert len(slots) == 2
        assert not {slot.pid for slot in slots} & {one.pid for one in supervisors}
        for slot in slots:
            slot.kill()
        psutil.wait_procs(slots, timeout=60)
    gate.unlink()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "SIGKILL" in out
    made = [json.loads(content)["provenance"] for content in user.published().values()]
    assert [one["attempt"] for one in made] == [4, 4]
    assert all(one["resumed_samples"] > 0 for one in made)
    expected = undisturbed()
    ended = finished_and_content(user)
    assert len(ended) == 2
    assert ended == {path: expected[path] for path in ended}


def cells_beyond(user: User, attempt: int, samples: int) -> int:
    """How many cells have more samples than these in this attempt."""
    files = user.results.glob(f".attempts/*/{attempt}-*/samples.jsonl")
    return sum(file.read_bytes().count(b"\n") > samples for file in files)


def test_two_runners_share_a_campaign_and_run_no_cell_twice(user: User) -> None:
    user.write(SLOW)
    processes = [user.start("run", "study.yaml") for _ in range(2)]
    outs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outs
    finished = attempts_that_finished(user)
    assert len(finished) == len(set(finished)) == 6
    assert finished_and_content(user) == undisturbed()
