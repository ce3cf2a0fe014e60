"""Where a running cell is, for how long it runs, and since when its runner is silent."""

from __future__ import annotations

import csv
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.dashboard.views.slots import slots_of
from benchfleet.dashboard.views.strips import strips
from benchfleet.domain.attempt import RunnerId
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger_campaign import campaign_of
from benchfleet.status import status_of
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from dashboards import NAME, RUNNER, DashboardCampaign, client_of, text_of

OTHER = RunnerId("another")


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    """A cell that failed on lab1 and runs on lab2 now, and one of whose runner no report is here.
    A third one is done on lab1."""
    campaign = DashboardCampaign(tmp_path)
    campaign.begin(host="lab2")
    campaign.begin(OTHER, host="lab3")
    campaign.fail(sample_cell(1), retry_in=0.0)
    claim = campaign.claim(sample_cell(1))
    slot = SlotProgress(
        devices="gpu:1", cell=claim.path, stage="benchmark", done=30, total=90, seconds=70.0
    )
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=(slot,)))
    campaign.claim(sample_cell(2), OTHER)
    campaign.finish(sample_cell(3))
    return campaign


def test_a_running_cell_has_its_host_device_time_and_samples(campaign: DashboardCampaign) -> None:
    with client_of(campaign.campaigns()) as client:
        running = client.get("/api/cells", params={"state": "running"}).json()["cells"]
        one, two = sorted(running, key=lambda cell: str(cell["path"]))
        assert (one["host"], one["device"], one["samples"]) == ("lab2", "gpu:1", 30)
        assert one["seconds"] == pytest.approx(70, abs=20)
        assert (two["host"], two["device"]) == ("lab3", "")
        assert 0 < two["seconds"] < 20
        assert client.get(f"/api/cells/{one['id']}").json()["cell"]["host"] == "lab2"
        text = text_of(client, "cells", state="running")
        assert "<td>lab2 gpu:1</td>" in text
        assert "1 min 1" in text
        lines = client.get(f"/c/{NAME}/cells.csv").text.splitlines()
        assert [row["host"] for row in csv.DictReader(lines)] == ["lab2", "lab3", "lab1"]
        lines = client.get(f"/c/{NAME}/cells.csv", params={"sort": "-host"}).text.splitlines()
        assert [row["host"] for row in csv.DictReader(lines)] == ["lab3", "lab2", "lab1"]


def test_filters_by_host_have_the_cells_that_run_there(campaign: DashboardCampaign) -> None:
    with client_of(campaign.campaigns(), session=True) as client:

        def found(**query: str) -> list[str]:
            cells = client.get("/api/cells", params=query).json()["cells"]
            return [str(one["benchmark"]) for one in cells]

        assert found(host="lab1") == ["benchmark-3"]  # not the one that runs elsewhere now
        assert found(host="lab2") == found(q="lab2") == ["benchmark-1"]
        assert found(host="lab3", state="running") == ["benchmark-2"]
        for page in ("cells", "matrix"):
            rows = text_of(client, page, host="lab2").partition("<tbody>")[2]
            assert ("benchmark-1" in rows, "benchmark-3" in rows) == (True, False), page


def silence(campaign: DashboardCampaign, seconds: float) -> None:
    """The runners have been silent for so many seconds."""
    with closing(sqlite3.connect(campaign.layout.ledger)) as file, file:
        file.execute("update progress set at = at - ?", (seconds,))
        file.execute("update cell set expires = expires - ?", (seconds,))


def test_silence_counts_from_the_last_sign_of_life(campaign: DashboardCampaign) -> None:
    silence(campaign, 98)
    study = open_study(campaign_of(campaign.url, results=None), ledger=campaign.url)
    seen = {one.host: one.progress_age for one in status_of(study).holders if one.progress}
    assert seen["lab2"] == pytest.approx(98, abs=20)
    with client_of(campaign.campaigns()) as client:
        machines = client.get("/api/status").json()["machines"]
        silent = {one["hostname"]: one["silent_seconds"] for one in machines}
        strip = text_of(client, "machines").partition("lab2")[2]
    assert silent["lab2"] == pytest.approx(seen["lab2"], abs=20)
    assert silent["lab3"] == pytest.approx(98, abs=20)  # which has renewed its lease until then
    assert "silent for 1 min" in strip


def test_a_silent_cell_is_silent_in_the_list_too(campaign: DashboardCampaign) -> None:
    silence(campaign, 98)
    campaign.claim(sample_cell(4))  # a new sign of a runner whose other cell is silent
    with client_of(campaign.campaigns()) as client:
        rows = text_of(client, "cells", state="running").partition("<tbody>")[2].split("</tr>")
        states = {row.partition("benchmark-")[2][:1]: row for row in rows}
        answer = client.get("/api/cells", params={"state": "running"}).json()["cells"]
        lines = client.get(f"/c/{NAME}/cells.csv").text.splitlines()
        page = text_of(client, f"cell/{answer[0]['id']}")
    assert page.count("◌ silent for 1 min") == 3  # the cell, its slot and its attempt
    assert "▶" not in page
    for number in "12":
        assert "◌ silent for 1 min" in states[number]
        assert "▶" not in states[number]
    assert "▶" in states["4"]
    assert "silent" not in states["4"]
    expected = pytest.approx([98, 98, 0], abs=20)
    assert [one["silent_seconds"] for one in answer] == expected
    named = {one["path"]: float(one["silent_seconds"]) for one in csv.DictReader(lines)}
    assert [named[one["path"]] for one in answer] == expected
    assert sum(named.values()) == pytest.approx(2 * 98, abs=40)  # the one that is done has none


def test_a_dead_runner_did_not_work_after_its_last_sign_of_life(
    campaign: DashboardCampaign,
) -> None:
    silence(campaign, 1800)
    campaigns = campaign.campaigns()
    with client_of(campaigns):
        shown = campaigns.get(NAME)
        assert shown is not None
        model = shown.view()
        with model.lock:
            (strip,) = strips((), slots_of(model), since=time.time() - 3600)["lab2"]
    assert strip.working == pytest.approx(70 / 3600, abs=0.01)
