"""What the page of machines shows beside runners: hosts of a fleet, reports, rentals, servers."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.dashboard.fleet import WORK_SPAN_S, Work
from benchfleet.dashboard.render import ago
from benchfleet.dashboard.views.strips import BINS, strips
from benchfleet.domain.eligibility import PROBED
from benchfleet.domain.event import Event
from benchfleet.domain.rental import CREATED, READY, Account, Rental, rental_event
from benchfleet.domain.resource import Need
from benchfleet.domain.slots import ADDED, ENDED, REMOVED, REQUESTED, Answer
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger_campaign import campaign_of
from benchfleet.runner.commands.operator import removed
from benchfleet.status import status_of
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from capabilities import BOX, reported
from dashboards import NAME, RUNNER, DashboardCampaign, client_of

KEY = "key-of-one-order"


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    """One runner here, whose slots are on two other hosts."""
    campaign = DashboardCampaign(tmp_path)
    campaign.begin(host="desk")
    claim = campaign.claim(sample_cell(1))
    doing = (
        SlotProgress(devices="lab1/gpu:0+1", cell=claim.path, stage="benchmark", done=1, total=2),
        SlotProgress(devices="lab2/gpu:0", stage="idle"),
        SlotProgress(devices="lab2/gpu:1", stage="idle"),
    )
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=doing))
    return campaign


def test_slots_on_other_hosts_are_shown_there(campaign: DashboardCampaign) -> None:
    with client_of(campaign.campaigns(), session=True) as client:
        hosts = {one["hostname"]: one for one in client.get("/api/status").json()["machines"]}
        assert {name: one["running"] for name, one in hosts.items()} == {
            "desk": 0,
            "lab1": 1,
            "lab2": 0,
        }
        text = client.get(f"/c/{NAME}/machines").text
        assert "has slots on lab1, lab2" in text
        assert "has not reported a slot" not in text
        assert "Drain lab1/gpu:0" in text  # each device of a slot with two
        assert "Drain lab1/gpu:1" in text
        assert "idle: no cell waits" in text


@pytest.mark.parametrize(("verb", "action"), [("drain", "drain"), ("remove", "remove")])
def test_a_whole_host_is_let_go_and_taken_back(
    campaign: DashboardCampaign, verb: str, action: str
) -> None:
    with client_of(campaign.campaigns(), session=True) as client:

        def order(verb: str, key: str) -> dict[str, object]:
            thread = threading.Thread(target=answer_next, args=(campaign,))
            thread.start()
            body = {"verb": verb, "key": key, "host": "lab2"}
            page = client.get(f"/c/{NAME}/order", params={"verb": verb, "host": "lab2"}).text
            assert "2 devices of lab2" in page
            answer = client.post("/api/orders", json=body)
            thread.join()
            assert answer.status_code == 200, answer.text
            values: dict[str, object] = answer.json()
            return values

        assert order(verb, KEY)["answers"] == ["done"]
        (asked,) = campaign.ledger.events(kinds={REQUESTED})
        assert asked.data["action"] == action
        assert asked.data["devices"] == ["lab2/gpu:0", "lab2/gpu:1"]
        text = client.get(f"/c/{NAME}/machines").text
        assert "Resume the host" in text
        assert "idle: drained" in text
        refused = client.post(
            "/api/orders", json={"verb": verb, "key": "another-key", "host": "lab2"}
        )
        assert refused.status_code == 409
        order("add", "key-of-the-undo")
        assert campaign.ledger.events(kinds={REQUESTED})[-1].data["action"] == "add"
        assert "Resume the host" not in client.get(f"/c/{NAME}/machines").text


@pytest.mark.parametrize("ids", [{"host": "desk"}, {"runner": RUNNER, "device": "cpu:0"}])
def test_what_was_excluded_is_given_back_without_a_runner(
    campaign: DashboardCampaign, ids: dict[str, str]
) -> None:
    data = {"runner": RUNNER, "machine": "desk", "devices": ["cpu:0"]}
    campaign.ledger.record(Event(kind=REMOVED, data=data))
    campaign.ledger.record(Event(kind=ENDED, data={"runner": RUNNER}))
    body = {"verb": "add", "key": KEY, **ids}
    with client_of(campaign.campaigns(), session=True) as client:
        text = client.get(f"/c/{NAME}/machines").text
        assert "Later runs leave out cpu:0." in text
        assert "Resume the host" in text
        answer = client.post("/api/orders", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["answers"] == ["later runs leave cpu:0 out no longer"]
        again = {**body, "key": "another-key"}
        assert client.post("/api/orders", json=again).status_code == 409
    assert removed(campaign.ledger.events(kinds={ADDED, REMOVED}), "desk") == []
    (added,) = campaign.ledger.events(kinds={ADDED})
    assert added.data["by"]
    with client_of(campaign.campaigns(), session=True) as client:  # another server
        assert client.post("/api/orders", json=body).status_code == 409
    assert campaign.ledger.events(kinds={REQUESTED}) == []


def test_a_runner_is_asked_for_what_an_earlier_one_excluded(campaign: DashboardCampaign) -> None:
    data = {"runner": "earlier", "machine": "", "devices": ["lab2/gpu:2"]}
    campaign.ledger.record(Event(kind=REMOVED, data=data))
    with client_of(campaign.campaigns(), session=True) as client:
        thread = threading.Thread(target=answer_next, args=(campaign,))
        thread.start()
        order = {"verb": "add", "key": KEY, "host": "lab2"}
        assert client.post("/api/orders", json=order).json()["answers"] == ["done"]
        thread.join()
    (asked,) = campaign.ledger.events(kinds={REQUESTED})
    assert asked.data["devices"] == ["lab2/gpu:2"]
    assert campaign.ledger.events(kinds={ADDED}) == []


def answer_next(campaign: DashboardCampaign) -> None:
    """The runner answers the next command."""
    before = len(campaign.ledger.events(kinds={REQUESTED}))
    end = time.monotonic() + 60
    while len(asked := campaign.ledger.events(kinds={REQUESTED})) == before:
        assert time.monotonic() < end
        time.sleep(0.05)
    answer = Answer(runner=RUNNER, request=asked[-1].seq, done=("done",))
    campaign.ledger.record(answer.event())


@pytest.mark.parametrize(("ahead", "text"), [(300.0, "ahead of"), (-300.0, "behind"), (9, "")])
def test_a_host_whose_clock_differs_says_so(tmp_path: Path, ahead: float, text: str) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin(host="lab1")
    claim = campaign.claim(sample_cell(1))
    slot = SlotProgress(devices="gpu:0", cell=claim.path, stage="benchmark", done=1, total=2)
    report = WorkerProgress(runner=RUNNER, slots=(slot,), clock=time.time() + ahead)
    campaign.ledger.report_progress(report)
    with client_of(campaign.campaigns()) as client:
        (machine,) = client.get("/api/status").json()["machines"]
        page = client.get(f"/c/{NAME}/machines").text
    status = status_of(open_study(campaign_of(campaign.url, results=None), ledger=campaign.url))
    if text:
        assert machine["clock_ahead_seconds"] == pytest.approx(ahead, abs=60)
        assert status.clocks["lab1"] == pytest.approx(ahead, abs=60)
        assert f"{text} the clock of the dashboard" in page
    else:
        assert (machine["clock_ahead_seconds"], status.clocks) == (0.0, {})
        assert "Its clock" not in page


@pytest.mark.parametrize(("age", "seen"), [(20, {}), (40, {"lab1": 40}), (70, {})])
def test_status_names_a_host_that_missed_its_reports_while_its_lease_lasts(
    tmp_path: Path, age: float, seen: dict[str, float]
) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin(host="lab1")
    claim = campaign.claim(sample_cell(1))
    slot = SlotProgress(cell=claim.path, stage="benchmark", done=1, total=2)
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=(slot,)))
    with closing(sqlite3.connect(campaign.layout.ledger)) as file, file:
        file.execute("update progress set at = at - ?", (age,))
        file.execute("update cell set expires = expires - ?", (age,))
    status = status_of(open_study(campaign_of(campaign.url, results=None), ledger=campaign.url))
    assert status.silent == pytest.approx(seen, abs=9)
    assert status.to_dict()["silent"] == status.silent


def test_times_of_a_clock_that_is_ahead_have_no_age() -> None:
    now = time.time()
    assert ago(now + 30) == "0 s ago"
    assert ago(now + 300) == "by a clock that is ahead"
    assert ago(now - 300).endswith("min ago")
    assert ago(0.0) == ""


def test_a_host_that_fails_alone_can_be_excluded(campaign: DashboardCampaign) -> None:
    campaign.finish(sample_cell(2))  # on lab1, as the failures
    with client_of(campaign.campaigns(), session=True) as client:
        assert "Exclude" not in client.get(f"/c/{NAME}/failures").text
    for number in (3, 4, 5):
        campaign.fail(sample_cell(number), host="lab2")
    with client_of(campaign.campaigns(), session=True) as client:
        assert "Exclude lab2" in client.get(f"/c/{NAME}/failures").text


def test_a_probed_machine_says_what_it_is(campaign: DashboardCampaign) -> None:
    campaign.ledger.record(Event(kind=PROBED, data={"report": reported("lab1", BOX)}))
    campaign.ledger.record(Event(kind=PROBED, data={"report": ["no report"]}))
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/machines").text
    gpu = BOX["gpu"]["devices"][0]["name"]
    assert f"{len(BOX['gpu']['devices'])} × {gpu}" in text
    assert "probed" in text


def test_a_rented_machine_is_shown_before_its_runner_begins(campaign: DashboardCampaign) -> None:
    account = Account(provider="vast", url="https://vast.test", id="me")
    rental = Rental(id="aaaaaaaa", account=account, entry="cheap", gpu="RTX 4090", hourly=350_000)
    campaign.ledger.record(rental.intent("b" * 10))
    campaign.ledger.record(
        rental_event(CREATED, rental.id, instance="7", began=time.time(), hourly=350_000)
    )
    campaign.ledger.record(rental_event(READY, rental.id, address="10.0.0.1", port=22, user="root"))
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/machines").text
        assert "Rented from vast: RTX 4090" in text
        assert "0.350 USD an hour" in text
        hosts = {one["hostname"]: one for one in client.get("/api/status").json()["machines"]}
    assert hosts[rental.host]["status"] == "Starting"


def test_served_models_are_listed_by_their_server(campaign: DashboardCampaign) -> None:
    asked = replace(sample_cell(7, model="qwen"), need=Need(endpoint="lab7:8000"))
    campaign.finish(asked)
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/machines").text
    assert "Served models" in text
    assert "lab7:8000" in text
    assert ">qwen<" in text


def test_a_strip_has_loading_and_working_in_the_known_time() -> None:
    now = time.time()
    hour = 3600.0
    work = [Work("lab1", "gpu:0", now - 3 * hour, now - 2 * hour, now, 0.0, "")]
    (strip,) = strips(work, (), since=now - 6 * hour)["lab1"]
    assert strip.begin == pytest.approx(BINS * 18 / 24, abs=1)
    assert strip.loading == pytest.approx(1 / 6, abs=0.02)
    assert strip.working == pytest.approx(2 / 6, abs=0.02)
    assert strip.idle == pytest.approx(3 / 6, abs=0.04)
    assert len(strip.blocks) <= 4  # equal neighbours are one shape
    assert all(one.x >= 0 and one.x + one.width <= BINS for one in strip.blocks)
    assert strips(work, (), since=now - 2 * WORK_SPAN_S)["lab1"][0].begin == 0


@pytest.mark.parametrize(("action", "state"), [("drain", "drained"), ("remove", "removed")])
def test_a_device_that_was_let_go_stays_on_its_card(
    campaign: DashboardCampaign, action: str, state: str
) -> None:
    order = {"runner": RUNNER, "action": action, "devices": ["lab2/gpu:0", "lab2/gpu:1"]}
    campaign.ledger.record(Event(kind=REQUESTED, data=order))
    left = SlotProgress(devices="lab2/gpu:1", stage="idle")  # the other has no slot any more
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=(left,)))
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/machines").text.partition("lab2")[2]
    assert (
        f'<span class="device">gpu:0</span></span> <span class="what faint">{state}</span>' in text
    )
    assert "idle: drained" in text
    assert text.count('<span class="device">gpu:1</span>') == 1


def test_a_machine_whose_runs_ended_is_called_ended(campaign: DashboardCampaign) -> None:
    campaign.fail(sample_cell(4))
    campaign.ledger.record(Event(kind=ENDED, data={"runner": RUNNER}))
    with client_of(campaign.campaigns()) as client:
        hosts = {one["hostname"]: one for one in client.get("/api/status").json()["machines"]}
    assert (hosts["lab1"]["status"], hosts["lab1"]["failed"]) == ("Ended", 1)
