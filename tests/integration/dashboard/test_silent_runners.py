"""Runners that were killed or fell silent: how pages name them, and since when."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchfleet.domain.attempt import Claim, RunnerId
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.testing import sample_cell
from dashboards import RUNNER, DashboardCampaign, client_of, text_of

OTHER = RunnerId("another")


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    return DashboardCampaign(tmp_path)


def report(campaign: DashboardCampaign, claim: Claim, runner: RunnerId = RUNNER) -> None:
    """The runner reports its slots: one with the cell, and one that idles."""
    slot = SlotProgress(devices="cpu:0", cell=claim.path, stage="benchmark", done=1, total=9)
    idle = SlotProgress(devices="cpu:1", stage="idle")
    campaign.ledger.report_progress(WorkerProgress(runner=runner, slots=(slot, idle)))


def pass_time(campaign: DashboardCampaign, seconds: float) -> None:
    """So many seconds pass for all that the ledger knows by now."""
    with closing(sqlite3.connect(campaign.layout.ledger)) as file, file:
        file.execute("update progress set at = at - ?", (seconds,))
        file.execute("update cell set expires = expires - ?", (seconds,))
        file.execute("update event set at = at - ?", (seconds,))


def machines_of(client: TestClient) -> dict[str, Mapping[str, Any]]:
    """The machines by their names, as the API has them."""
    found = client.get("/api/status").json()["machines"]
    return {one["hostname"]: one for one in found}


def test_a_machine_is_silent_since_the_newest_sign_of_its_runners(
    campaign: DashboardCampaign,
) -> None:
    campaign.begin(host="lab1")
    campaign.finish(sample_cell(2))  # too short for a report
    pass_time(campaign, 300)
    campaign.begin(OTHER, host="lab1")
    report(campaign, campaign.claim(sample_cell(3), OTHER), OTHER)
    pass_time(campaign, 60)
    campaign.claim(sample_cell(4), OTHER)
    pass_time(campaign, 98)
    with client_of(campaign.campaigns()) as client:
        machine = machines_of(client)["lab1"]
        page = text_of(client, "machines")
    assert machine["status"] == "Silent"
    assert machine["silent_seconds"] == pytest.approx(98, abs=20)
    assert "It holds no cell." in page
    assert "has not reported a slot" not in page


def test_a_machine_is_not_silent_while_a_cell_of_its_runner_is_alive(
    campaign: DashboardCampaign,
) -> None:
    campaign.begin(host="lab1")
    report(campaign, campaign.claim(sample_cell(1)))
    pass_time(campaign, 98)
    campaign.claim(sample_cell(2))
    with client_of(campaign.campaigns()) as client:
        machine = machines_of(client)["lab1"]
        page = text_of(client, "machines")
    assert (machine["status"], machine["silent_seconds"]) == ("Running", 0.0)
    assert "◌ silent for 1 min" in page  # the cell
