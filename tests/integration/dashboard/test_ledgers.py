"""The read model over a ledger on a server that goes away, and over one in a git repository."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.dashboard import watcher
from benchfleet.dashboard.campaigns import STOP_TIMEOUT_S, campaigns_of_ledger
from benchfleet.dashboard.watcher import Watcher
from benchfleet.domain.attempt import Outcome, RunnerId
from benchfleet.domain.failure import Failure
from benchfleet.ledger.base import Ledger
from benchfleet.ledger.git.ledger import GitLedger
from benchfleet.ledger.postgres.ledger import PostgresLedger
from benchfleet.testing import sample_cell
from cut_lines import Line
from dashboards import client_of, slow_reading
from postgres import Postgres
from repositories import make_bare

CELLS = [sample_cell(number) for number in range(4)]
FAILED = Outcome(
    state="failed", failure=Failure(stage="load", kind="oom", message="no memory"), host="lab1"
)


def until(condition: Callable[[], bool]) -> None:
    """Wait for the condition, a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def run_one(ledger: Ledger, number: int, outcome: Outcome) -> None:
    """A runner runs a cell to its end."""
    (claim,) = ledger.claim(RunnerId("runner"), [CELLS[number].fingerprint])
    ledger.finish(claim.lease, outcome)


def test_a_server_that_goes_away_is_named_with_the_age_of_the_page_and_comes_back(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "CALL_TIMEOUT_S", 3.0)
    name, other = uuid.uuid4().hex, uuid.uuid4().hex
    with (
        closing(PostgresLedger(postgres.url(), campaign=name)) as ledger,
        closing(PostgresLedger(postgres.url(), campaign=other)),
        closing(Line(postgres.port)) as line,
    ):
        ledger.enroll(CELLS)
        campaigns = campaigns_of_ledger(postgres.url(port=line.port), tmp_path)
        assert {name, other} <= set(campaigns.names.values())  # one server shows both
        with client_of(campaigns, read=False) as client:  # others share this server

            def status() -> dict[str, object]:
                values: dict[str, object] = client.get(
                    "/api/status", params={"campaign": name}
                ).json()
                return values

            assert status()["total"] == len(CELLS)
            run_one(ledger, 0, FAILED)
            until(lambda: status()["states"]["failed"] == 1)  # type: ignore[index]
            line.held = True
            until(lambda: bool(status()["error"]))
            assert status()["total"] == len(CELLS)  # what was read before
            page = client.get(f"/c/{name}/").text
            assert "The ledger cannot be read since" in page
            assert "4 cells" in page
            run_one(ledger, 1, FAILED)  # by another line
            line.held = False
            until(lambda: not status()["error"] and status()["states"]["failed"] == 2)  # type: ignore[index]
            until(lambda: "cannot be read" not in client.get(f"/c/{name}/").text)


def test_the_watchers_of_many_campaigns_stop_together(
    own_postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a read that hangs. None waits for the one before it."""
    url = own_postgres.url()
    for number in range(4):
        with closing(PostgresLedger(url, campaign=f"study{number}")) as ledger:
            ledger.enroll(CELLS)
    campaigns = campaigns_of_ledger(url, tmp_path)
    shown = [campaigns.get(slug) for slug in campaigns.names]
    watchers = [one.watcher for one in shown if one is not None]
    waits: list[float] = []
    join = Watcher.join

    def noted(watcher: Watcher, seconds: float) -> None:
        assert all(one._stopped for one in watchers)
        waits.append(seconds)
        join(watcher, seconds)

    monkeypatch.setattr(Watcher, "join", noted)
    with slow_reading(3):
        for watcher in watchers:
            watcher.view(0.1)
        campaigns.stop()
    assert len(waits) == 4
    assert waits[0] <= STOP_TIMEOUT_S
    assert waits[1:] == [0.0] * 3  # the first used it up


def test_a_ledger_in_git_is_followed_at_its_rate_while_its_remote_is_cut_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "GIT_INTERVAL_S", 1.0)
    bare = make_bare(tmp_path / "ledger.git")
    url = f"git+file://{bare}"
    with closing(GitLedger(url, campaign="study", folder=tmp_path / "worker")) as ledger:
        ledger.enroll(CELLS)
        campaigns = campaigns_of_ledger(url, tmp_path / "results")
        with client_of(campaigns) as client:
            assert client.get("/api/status").json()["total"] == len(CELLS)
            run_one(ledger, 2, FAILED)

            def failed() -> bool:
                return bool(client.get("/api/status").json()["states"]["failed"])

            until(failed)
            (cell,) = client.get("/api/cells", params={"state": "failed"}).json()["cells"]
            assert cell["path"] == CELLS[2].path(marked=False)
            assert client.get("/api/changes").json()["store_age"] >= 0

            away = bare.rename(tmp_path / "away.git")
            until(lambda: bool(client.get("/api/status").json()["error"]))
            page = client.get("/c/study/").text
            assert "The ledger cannot be read since" in page
            assert re.search(r"\d s old: ledger unreachable since \d{4}-\d\d-\d\d", page)
            assert re.search(r"shows what was read \d+ s ago", page)
            assert "0 of 4 cells done, 1 failed" in page  # what was read before
            away.rename(bare)
            run_one(ledger, 3, FAILED)
            until(lambda: client.get("/api/status").json()["states"]["failed"] == 2)
            page = client.get("/c/study/").text
            assert "cannot be read" not in page
            assert "0 of 4 cells done, 2 failed" in page
