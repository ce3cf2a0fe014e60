"""What pages say of a ledger that was deleted, and of one that was not read yet."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.dashboard import watcher
from benchfleet.dashboard.campaigns import campaigns_of_study
from benchfleet.dashboard.watcher import Watcher
from benchfleet.domain.event import Event
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from dashboards import (
    NAME,
    TABS,
    DashboardCampaign,
    client_of,
    every_kind_of_cell,
    slow_reading,
    text_of,
)

FILE = """\
campaign: study
matrix:
  models: [{name: m1, adapter: mock}]
  benchmarks: [{command: {name: mine, argv: [python, script.py]}}]
"""


def read_again(one: Watcher) -> None:
    """Wait until the watcher has looked at the ledger again, and at it as it is now."""
    for _ in range(2):
        one.refresh()


@pytest.mark.parametrize("has_file", [True, False])
def test_a_ledger_that_was_deleted_is_away_since_then(tmp_path: Path, has_file: bool) -> None:
    (tmp_path / "script.py").touch()
    (tmp_path / "study.yaml").write_text(FILE)
    study = open_study(load_campaign(tmp_path / "study.yaml"))
    campaign = DashboardCampaign(study.layout.root.parent)
    (cell,) = study.cells()
    campaign.finish(cell)
    campaigns = campaigns_of_study(study) if has_file else campaign.campaigns()
    with client_of(campaigns) as client:
        assert "1 of 1 cell done" in text_of(client, "")
        shown = campaigns.get(NAME)
        assert shown is not None
        campaign.ledger.close()
        shutil.rmtree(campaign.folder)
        read_again(shown.watcher)
        status = client.get("/api/status").json()
        assert "is not there" in status["error"]
        page = text_of(client, "")
        assert "The ledger cannot be read since" in page
        assert "1 of 1 cell done" in page  # what was read before
        assert "Nothing has run yet" not in text_of(client, "plan")
        again = DashboardCampaign(tmp_path / "again")
        for _ in range(3):  # its events are more than those of the one that is gone
            again.fail(cell)
            again.ledger.record(Event(kind="retry_asked", fingerprint=str(cell.fingerprint)))
        again.ledger.close()
        shutil.copytree(again.folder, campaign.folder)
        read_again(shown.watcher)
        status = client.get("/api/status").json()
        assert (status["error"], status["states"]["retrying"]) == ("", 1)


RESULT_PAGES = ("compare", "cost", "manifest", "race", "plan")
FALSE = (
    "Nothing was used",
    "Nothing was run",
    "No result yet",
    "Nothing has run",
    "has not started",
    "on another machine",
    "No metrics yet",
    "Nothing happened",
)


@pytest.mark.parametrize("is_noticed", [True, False])
@pytest.mark.parametrize("was_read", [True, False])
def test_no_page_says_that_nothing_is_there_while_its_folder_is_away(
    tmp_path: Path, *, was_read: bool, is_noticed: bool
) -> None:
    """Pages show what was read before, or that it cannot be read now; also before the watcher has
    looked, and when all is there again."""
    campaign = every_kind_of_cell(tmp_path)
    campaigns = campaign.campaigns()
    shown = campaigns.get(NAME)
    assert shown is not None
    with client_of(campaigns) as client:
        (id,) = (
            one["id"] for one in client.get("/api/cells?q=dense&state=success").json()["cells"]
        )
        tabs = [f"/c/{NAME}/cell/{id}?tab={tab}" for tab in TABS]
        before = {
            page: main_of(client.get(f"/c/{NAME}/{page}").text) for page in RESULT_PAGES * was_read
        }
        campaign.ledger.close()
        if not is_noticed:
            shown.watcher.ask_to_stop()
            shown.watcher.join(10)
        campaign.folder.rename(tmp_path / "away")
        if is_noticed:
            read_again(shown.watcher)
        for page in RESULT_PAGES:
            main = main_of(client.get(f"/c/{NAME}/{page}").text)
            assert not [text for text in FALSE if text in main], page
            if was_read and page != "plan":
                assert main == before[page]
            elif page != "plan":
                assert "Not known while the ledger is away" in main
        for tab in tabs:
            main = main_of(client.get(tab).text)
            assert not [text for text in FALSE if text in main], tab
            assert "The attempts cannot be read while the ledger is away" in main
        assert client.get(f"/api/cells/{id}").status_code == 503
        (tmp_path / "away").rename(campaign.folder)
        if is_noticed:
            read_again(shown.watcher)
            assert "By model and config" in text_of(client, "cost")
            assert "attempt 1" in main_of(client.get(tabs[0]).text)


def main_of(text: str) -> str:
    """The part of a page that is its own."""
    return text.partition("<main")[2].partition("</main>")[0]


def test_a_campaign_that_never_ran_is_no_ledger_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "script.py").touch()
    (tmp_path / "study.yaml").write_text(FILE)
    campaigns = campaigns_of_study(open_study(load_campaign(tmp_path / "study.yaml")))
    with client_of(campaigns) as client:
        assert client.get("/api/status").json()["error"] == ""
        assert "0 of 1 cell done" in text_of(client, "")
        assert "1 cell waits; start it with" in text_of(client, "")


PAGES_OF_THE_MODEL = ("", "matrix", "cells", "failures", "machines", "plan")


def test_no_page_counts_cells_before_they_are_read(tmp_path: Path) -> None:
    campaigns = every_kind_of_cell(tmp_path).campaigns()
    shown = campaigns.get(NAME)
    assert shown is not None
    with slow_reading(2), client_of(campaigns, read=False) as client:
        for error in ("", "it is away"):
            if error:
                shown.watcher.model.failed(error)
            for page in PAGES_OF_THE_MODEL:
                text = text_of(client, page)
                main = text.partition("<main")[2].partition("</main>")[0]
                assert "Not known yet." in main
                assert main.count("<h1") == 1
                assert not re.search(r"\b0\b|[Nn]o cell|Nothing|All cells", main), page
                assert "read never" not in text
                assert ("Nothing was read before" in text) == bool(error)
                assert "0.0 s old" not in text
        status = client.get("/api/status").json()
        assert (status["total"], status["share"], status["age_seconds"]) == (0, None, None)


def test_a_campaign_without_cells_is_not_done(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin()
    with client_of(campaign.campaigns()) as client:
        text = text_of(client, "")
        assert client.get("/api/status").json()["share"] is None
    assert "<h1>No cells yet</h1>" in text
    assert "All cells have ended" not in text


def test_another_ledger_at_its_place_is_noticed_by_the_next_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "VIEWER_TIMEOUT_S", 0.0)
    campaign = every_kind_of_cell(tmp_path)
    campaigns = campaign.campaigns()
    with client_of(campaigns) as client:
        assert client.get("/api/status").json()["states"]["success"] == 2
        campaign.ledger.close()
        time.sleep(2.5)  # nobody looks
        shutil.rmtree(campaign.folder)
        again = DashboardCampaign(tmp_path)
        again.fail(sample_cell(1))
        again.ledger.close()
        assert client.get("/api/status").json()["states"]["failed"] == 1
