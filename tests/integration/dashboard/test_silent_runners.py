"""Runners that were killed or fell silent: how pages name them, and since when."""

from __future__ import annotations

import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.event import BY_HAND, RUNNER_KILLED, Event
from benchfleet.domain.slots import BEGAN, ENDED
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.engines.processes import owner, process_space
from benchfleet.ledger.base import DEFAULT_LEASE_S
from benchfleet.orders.slots import RUNNER_EVENTS, runners
from benchfleet.testing import sample_cell
from dashboards import NAME, RUNNER, DashboardCampaign, client_of, text_of

OTHER = RunnerId("another")
HERE = socket.gethostname()


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


class KilledRunner:
    """A runner of this machine, whose process can be killed."""

    def __init__(self, campaign: DashboardCampaign, **changed: str) -> None:
        self.campaign = campaign
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        data = {"runner": RUNNER, "machine": HERE, "host": HERE, "folder": ""}
        data |= {"process": owner(self.process.pid), "space": process_space(), **changed}
        campaign.ledger.record(Event(kind=BEGAN, data=data))
        self.claim = campaign.claim(sample_cell(1))
        report(campaign, self.claim)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def lose_cell(self) -> None:
        """Another run takes its cell, and ends."""
        self.campaign.ledger.release([self.claim.lease], "by another run")
        self.campaign.begin(OTHER, host=HERE)
        claim = self.campaign.claim(sample_cell(1), OTHER)
        self.campaign.ledger.finish(claim.lease, Outcome(state="success", digest="d", host=HERE))
        self.campaign.ledger.record(Event(kind=ENDED, data={"runner": OTHER}))

    def is_at_work(self) -> bool:
        """What `benchfleet slots` takes it for."""
        return bool(runners(self.campaign.ledger.events(kinds=RUNNER_EVENTS)))


def test_a_runner_that_was_killed_here_has_ended_once_it_holds_no_cell(
    campaign: DashboardCampaign,
) -> None:
    killed = KilledRunner(campaign)
    with client_of(campaign.campaigns(), session=True) as client:
        assert machines_of(client)[HERE]["status"] == "Running"
        assert "Drain cpu:1" in text_of(client, "machines")
        killed.kill()
        killed.lose_cell()
        end = time.monotonic() + 60
        while machines_of(client)[HERE]["status"] != "Ended":
            assert time.monotonic() < end
        page, overview = text_of(client, "machines"), text_of(client, "")
        refused = {"verb": "drain", "key": "key-of-an-order", "host": HERE}
        assert client.post("/api/orders", json=refused).status_code == 409
    assert not killed.is_at_work()
    assert "0 machines at work" in page
    assert "Drain" not in page
    assert "cpu:1" not in overview  # it idles no more
    assert "Nothing runs." in overview


def test_a_runner_that_was_killed_here_is_silent_with_the_cell_that_it_holds(
    campaign: DashboardCampaign,
) -> None:
    killed = KilledRunner(campaign)
    killed.kill()
    pass_time(campaign, 98)
    with client_of(campaign.campaigns()) as client:
        machine = machines_of(client)[HERE]
        page = text_of(client, "machines")
    assert (machine["status"], machine["running"]) == ("Silent", 1)
    assert machine["silent_seconds"] == pytest.approx(98, abs=20)
    assert "idle" not in re.findall(r'class="slot (\w+)', page)


@pytest.mark.parametrize("changed", [{"machine": "lab1"}, {"space": "{boot} pid:[1]"}])
def test_a_runner_whose_process_cannot_be_seen_from_here_counts_as_at_work(
    campaign: DashboardCampaign, changed: dict[str, str]
) -> None:
    boot = process_space().partition(" ")[0]
    killed = KilledRunner(campaign, **{k: v.format(boot=boot) for k, v in changed.items()})
    killed.kill()
    killed.lose_cell()
    with client_of(campaign.campaigns()) as client:
        assert machines_of(client)[HERE]["status"] == "Running"
    assert killed.is_at_work()


def test_a_runner_from_before_a_reboot_has_ended(campaign: DashboardCampaign) -> None:
    killed = KilledRunner(campaign, space="another-boot pid:[1]")
    killed.lose_cell()
    with killed.process, client_of(campaign.campaigns()) as client:  # which has that number now
        assert machines_of(client)[HERE]["status"] == "Ended"
        assert not killed.is_at_work()


def lost(campaign: DashboardCampaign, how: str) -> None:
    """A runner elsewhere, which had ended a cell before, loses its only cell."""
    campaign.begin(host="lab1")
    campaign.finish(sample_cell(2))
    claim = campaign.claim(sample_cell(1))
    report(campaign, claim)
    pass_time(campaign, 300)
    if how == "reaped":
        assert campaign.ledger.reap()
    else:
        campaign.ledger.release([claim.lease], how)


@pytest.mark.parametrize("how", ["reaped", f"{BY_HAND}it is off"])
def test_a_runner_that_lost_its_cells_is_silent_until_it_gives_a_sign(
    campaign: DashboardCampaign, how: str
) -> None:
    lost(campaign, how)
    with client_of(campaign.campaigns()) as client:
        machine = machines_of(client)["lab1"]
        assert machine["status"] == "Silent"
        assert machine["silent_seconds"] == pytest.approx(300, abs=20)
    campaign.finish(sample_cell(3))
    with client_of(campaign.campaigns()) as client:
        assert machines_of(client)["lab1"]["status"] == "Running"


def test_a_runner_that_its_machine_saw_killed_has_ended(campaign: DashboardCampaign) -> None:
    lost(campaign, RUNNER_KILLED)
    with client_of(campaign.campaigns()) as client:
        assert machines_of(client)["lab1"]["status"] == "Ended"


def test_nobody_turns_silent_while_the_ledger_cannot_be_read(campaign: DashboardCampaign) -> None:
    campaign.begin(host="lab1")
    claim = campaign.claim(sample_cell(1))
    campaign.begin(OTHER, host="lab2")
    pass_time(campaign, DEFAULT_LEASE_S - 5)  # what the lease of the one has left
    campaigns = campaign.campaigns()
    with client_of(campaigns) as client:
        assert {one["status"] for one in machines_of(client).values()} == {"Running"}
        shown = campaigns.get(NAME)
        assert shown is not None
        ends = shown.watcher.model.leases[claim.lease.fingerprint]
        campaign.ledger.close()
        campaign.layout.ledger.rename(campaign.folder / "away")
        while time.monotonic() < ends + 1:
            time.sleep(0.05)
        shown.watcher.refresh()
        assert client.get("/api/status").json()["error"]
        assert {one["status"] for one in machines_of(client).values()} == {"Running"}
        assert "silent for" not in text_of(client, "machines")


def test_a_runner_that_waits_for_cells_is_not_silent(campaign: DashboardCampaign) -> None:
    campaign.begin(host="lab1")
    claim = campaign.claim(sample_cell(1))
    report(campaign, claim)
    campaign.ledger.finish(claim.lease, Outcome(state="success", digest="d", host="lab1"))
    pass_time(campaign, 300)  # without a cell it reports nothing
    with client_of(campaign.campaigns()) as client:
        assert machines_of(client)["lab1"]["status"] == "Running"


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
