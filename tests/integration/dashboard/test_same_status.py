"""`benchfleet status` and the dashboard show the same numbers for the same ledger."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.campaign_record import CampaignRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.part import Split
from benchfleet.domain.phase import GateDecision, Phase
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger_campaign import campaign_of
from benchfleet.status import Status, status_of
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from dashboards import NAME, RUNNER, DashboardCampaign, client_of

OTHER = RunnerId("another")
MACHINES = f"/c/{NAME}/machines"
PHASES = (
    Phase(name="e0", gate="score > 0.5"),
    Phase(name="e1", requires=("e0",)),
    Phase(name="e2", requires=("e1",)),
)


class Campaign(DashboardCampaign):
    """A campaign with phases, of which a runner that was killed left an old report."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ledger.record(CampaignRecord(name=NAME, phases=PHASES).event())
        self.begin()
        self.begin(OTHER, host="lab2")
        self.ledger.enroll([self.cell(number) for number in range(6)])

    def cell(self, number: int) -> Cell:
        return sample_cell(number, phase=PHASES[number // 2].name)

    def status(self) -> Status:
        """What the command line shows."""
        study = open_study(campaign_of(self.url, results=None), ledger=self.url)
        return status_of(study)

    def progress(
        self, claim: Claim, done: int, eta: float | None, runner: RunnerId = RUNNER
    ) -> None:
        slot = SlotProgress(cell=claim.path, stage="benchmark", done=done, total=100)
        self.ledger.report_progress(WorkerProgress(runner=runner, slots=(slot,), eta=eta))


def test_share_and_eta_are_those_of_the_command_line(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.finish(campaign.cell(0))
    stale = campaign.claim(campaign.cell(1), OTHER)
    campaign.progress(stale, 90, eta=9000.0, runner=OTHER)
    campaign.ledger.release([stale.lease], "it was killed")
    campaign.progress(campaign.claim(campaign.cell(1)), 40, eta=600.0)
    with client_of(campaign.campaigns()) as client:
        page = client.get("/api/status").json()
        text = client.get(f"/c/{NAME}/").text
    status = campaign.status()
    assert status.share == pytest.approx(1.4 / 6)
    assert page["share"] == round(status.share, 4)
    assert status.eta == pytest.approx(600, abs=60)
    assert page["eta_seconds"] == pytest.approx(status.eta, abs=60)
    assert "1 of 6 cells done, 1 running; 23 %, about " in text
    assert "90/100" not in text


def test_a_runner_that_loads_has_an_eta_too(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.claim(campaign.cell(0))
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, eta=600.0))
    with client_of(campaign.campaigns()) as client:
        eta = client.get("/api/status").json()["eta_seconds"]
    assert eta == pytest.approx(600, abs=60)
    assert campaign.status().eta == pytest.approx(600, abs=60)


def test_nothing_that_runs_has_no_eta(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.progress(claim := campaign.claim(campaign.cell(0)), 40, eta=600.0)
    campaign.ledger.release([claim.lease], "it was killed")
    with client_of(campaign.campaigns()) as client:
        assert client.get("/api/status").json()["eta_seconds"] is None
    assert campaign.status().eta is None


def test_runners_whose_leases_expired_have_no_eta(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.progress(campaign.claim(campaign.cell(0)), 40, eta=9000.0)
    expire(campaign)

    def etas() -> tuple[float | None, float | None]:
        with client_of(campaign.campaigns()) as client:
            return client.get("/api/status").json()["eta_seconds"], campaign.status().eta

    assert etas() == (None, None)
    other = campaign.claim(campaign.cell(1), OTHER)
    campaign.progress(other, 40, eta=600.0, runner=OTHER)
    assert etas() == pytest.approx((600, 600), abs=60)  # of the one that is alive


def test_runners_whose_leases_of_parts_expired_have_no_eta(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    whole = campaign.claim(campaign.cell(0))
    lease = whole.lease
    split = Split.evenly(str(lease.fingerprint), lease.attempt, lease.token, 2)
    parts = split.cells(campaign.cell(0))
    campaign.ledger.enroll(parts)
    campaign.ledger.record(split.event(parts))
    campaign.ledger.release([lease], "split")
    part = campaign.claim(parts[0])
    campaign.progress(part, 10, eta=9000.0)
    with client_of(campaign.campaigns()) as client:
        eta = client.get("/api/status").json()["eta_seconds"]
    assert eta == pytest.approx(campaign.status().eta, abs=60)
    assert eta == pytest.approx(9000, abs=60)
    expire(campaign)
    with client_of(campaign.campaigns()) as client:
        assert client.get("/api/status").json()["eta_seconds"] is None
    assert campaign.status().eta is None


def expire(campaign: Campaign) -> None:
    """All leases expired a moment ago."""
    with closing(sqlite3.connect(campaign.layout.ledger)) as file, file:
        file.execute("update cell set expires = expires - 90")


def test_the_names_of_events_are_not_shown(tmp_path: Path) -> None:
    with client_of(Campaign(tmp_path).campaigns()) as client:
        text = client.get(f"/c/{NAME}/").text
    assert "a run recorded the campaign&#39;s definition" in text


def test_the_overview_says_which_gate_holds_all_that_waits(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    for number in range(2):
        campaign.finish(campaign.cell(number))

    def overview() -> str:
        with client_of(campaign.campaigns()) as client:
            return client.get(f"/c/{NAME}/").text

    campaign.ledger.record(
        GateDecision(phase="e0", state="closed", expression="score > 0.9").event()
    )
    text = overview()
    assert "no run may begin one: each waits for the gate of phase e0: score &gt; 0.5 (clo" in text
    assert "start them with" not in text
    assert "gate of e0 closed: score &gt; 0.9<" in text
    campaign.ledger.record(GateDecision(phase="e0", state="opened", by="me").event())
    assert "start them with" in overview()


def test_an_idle_slot_says_which_gate_it_waits_for(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.finish(campaign.cell(0))
    slot = SlotProgress(devices="gpu:0", stage="idle")
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=(slot,)))

    def idle() -> str:
        with client_of(campaign.campaigns()) as client:
            (reason,) = re.findall(r"idle(?:: ([^<]*))?</span>", client.get(MACHINES).text)
        return str(reason)

    assert idle() == ""  # a cell of the first phase waits too
    running = campaign.claim(campaign.cell(1))
    assert (
        idle() == "waits for the gate of phase e0: score &gt; 0.5 (1 of 2 cells have ended)"
    )  # not for that of e1, which has not begun
    campaign.ledger.finish(running.lease, Outcome(state="success", digest="d"))
    campaign.ledger.record(GateDecision(phase="e0", state="closed", why="too low").event())
    assert idle() == "waits for the gate of phase e0: score &gt; 0.5 (closed)"
    campaign.ledger.record(GateDecision(phase="e0", state="opened", by="me").event())
    assert idle() == ""


def test_phases_are_those_of_the_command_line(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.finish(campaign.cell(0))
    campaign.fail(campaign.cell(1))
    closed = GateDecision(phase="e0", state="closed", expression="score > 0.5", why="too low")
    for decision in (None, closed, GateDecision(phase="e0", state="opened", by="me")):
        if decision is not None:
            campaign.ledger.record(decision.event())
        with client_of(campaign.campaigns(), session=True) as client:
            text = client.get(f"/c/{NAME}/").text
        phases = campaign.status().phases
        assert [one.total for one in phases] == [2, 2, 2]
        for one in phases:
            name = f"<b>{one.phase.name}</b> {one.ended}/{one.total}"
            item = next(line for line in text.split("</li>") if name in line)
            assert f'<li class="{one.state}">' in item
            assert one.text.replace(">", "&gt;") in item
            assert ("Open the gate" in item) == one.can_be_opened
