"""Runs whose server forgot a claim: two of them are at one attempt of a cell."""

from __future__ import annotations

import signal

import pytest

from postgres import Postgres

from .conftest import User, samples_kept, until

KEPT = "create table benchfleet_study.kept as table benchfleet_study.cell"
BACK = (
    "delete from benchfleet_study.cell;"
    " insert into benchfleet_study.cell select * from benchfleet_study.kept"
)


def test_two_runs_at_one_attempt_write_into_folders_of_their_own(
    user: User, own_postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a standby imported that had not heard of the first one's claim; neither hears of
    the other by a renewal here."""
    monkeypatch.setenv("BENCHFLEET_LEASE_SECONDS", "600")
    gate = user.write("", "gate")
    user.write(
        "campaign: study\n"
        "matrix:\n"
        "  models: [{name: m1, adapter: mock}]\n"
        "  configs: {dense: null}\n"
        f"  benchmarks: [{{_hostile: {{samples: 4, act: wait, at: 2, shared: {gate}}}}}]\n"
    )
    order = ("run", "study.yaml", "--ledger", own_postgres.url(), "--cpu-slots", "1")
    runs = [user.start(*order)]

    def at_work() -> int:
        return len([*(user.results / ".attempts").glob("*/2-*")])

    try:
        until(lambda: samples_kept(user) == 2)
        runs[0].send_signal(signal.SIGINT)
        lines = runs[0].stdout
        assert lines is not None
        assert any("after the sample at hand" in line for line in lines)
        runs[0].send_signal(signal.SIGINT)  # it waits for no sample now
        runs.pop().communicate(timeout=60)
        own_postgres.sql(KEPT)
        runs.append(user.start(*order))
        until(lambda: at_work() == 1)
        own_postgres.sql(BACK)
        runs.append(user.start(*order))
        until(lambda: at_work() == 2)
        gate.unlink()
        output = [run.communicate(timeout=60)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    assert [run.returncode for run in runs] == [0, 0], output
    assert "released, or held elsewhere now" in output[0]
    assert "failed" not in output[1]
    at = order[1:4]
    assert user.json("status", *at)["success"] == 1
    assert user.json("verify", *at)["wrong"] == []
    assert [*(user.results / ".attempts").iterdir()] == []
