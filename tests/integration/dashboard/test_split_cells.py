"""A split cell is one cell: it runs while a part does, and says how many parts have ended."""

from __future__ import annotations

import sqlite3
import weakref
from contextlib import closing
from pathlib import Path

import pytest

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.views.overview import overview
from benchfleet.dashboard.views.slots import slots_of
from benchfleet.dashboard.watcher import Watcher
from benchfleet.domain.attempt import Claim, Outcome, RunnerId
from benchfleet.domain.part import Split
from benchfleet.domain.worker_progress import SlotProgress, WorkerProgress
from benchfleet.ledger_campaign import campaign_of
from benchfleet.study import open_study
from benchfleet.testing import sample_cell
from dashboards import RUNNER, DashboardCampaign, client_of, text_of

WHOLE = sample_cell(1)
OTHER = RunnerId("another")


class SplitCampaign(DashboardCampaign):
    """A campaign whose only cell is split into four parts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begin()
        self.ledger.enroll([WHOLE])
        (claim,) = self.ledger.claim(RUNNER, [WHOLE.fingerprint])
        name = str(WHOLE.fingerprint)
        split = Split.evenly(name, claim.lease.attempt, claim.lease.token, 4)
        self.parts = split.cells(WHOLE)
        self.ledger.record(split.event(self.parts))
        self.ledger.release([claim.lease], "it was split into 4 parts")
        self.ledger.enroll(self.parts)

    def claim_part(self, number: int, runner: RunnerId = RUNNER) -> Claim:
        (claim,) = self.ledger.claim(runner, [self.parts[number].fingerprint])
        return claim

    def end_part(self, claim: Claim) -> None:
        self.ledger.finish(claim.lease, Outcome(state="success", digest="d", host="lab1"))


class Reader:
    """What a dashboard reads of it, round by round."""

    def __init__(self, campaign: SplitCampaign) -> None:
        study = open_study(campaign_of(campaign.url, results=None), ledger=campaign.url)
        self.model = ReadModel("study")
        self._watcher = Watcher(study, self.model)
        weakref.finalize(self, self._watcher._close)

    def read(self) -> tuple[object, ...]:
        self._watcher._round()
        (row,) = self.model.rows
        return row.state, row.parts_ended, row.parts, dict(self.model.counts)["running"]


def test_what_is_read_step_by_step_is_what_a_fresh_reader_finds(tmp_path: Path) -> None:
    campaign = SplitCampaign(tmp_path)
    reader = Reader(campaign)
    assert reader.read() == Reader(campaign).read() == ("pending", 0, 4, 0)
    first, second = campaign.claim_part(0), campaign.claim_part(1, OTHER)
    assert reader.read() == Reader(campaign).read() == ("running", 0, 4, 1)
    campaign.end_part(first)
    assert reader.read() == Reader(campaign).read() == ("running", 1, 4, 1)
    campaign.ledger.release([second.lease], "the host goes away")
    assert reader.read() == Reader(campaign).read() == ("pending", 1, 4, 0)
    for number in (1, 2, 3):
        campaign.end_part(campaign.claim_part(number))
    (whole,) = campaign.ledger.claim(RUNNER, [WHOLE.fingerprint])
    assert reader.read() == Reader(campaign).read() == ("running", 4, 4, 1)
    campaign.ledger.finish(whole.lease, Outcome(state="success", digest="d", host="lab1"))
    assert reader.read() == Reader(campaign).read() == ("success", 0, 0, 0)


def test_a_split_cell_is_silent_once_all_parts_that_run_are(tmp_path: Path) -> None:
    campaign = SplitCampaign(tmp_path)
    campaign.claim_part(0)
    with closing(sqlite3.connect(campaign.layout.ledger)) as file, file:
        file.execute("update cell set expires = expires - 90")

    def silence() -> list[float]:
        with client_of(campaign.campaigns()) as client:
            cells = client.get("/api/cells").json()["cells"]
            page = text_of(client, f"cell/{cells[0]['id']}").partition("<h1>")[2]
            assert ("silent" in page.partition("</h1>")[0]) == bool(cells[0]["silent_seconds"])
            return [one["silent_seconds"] for one in cells]

    assert silence() == pytest.approx([90], abs=20)
    campaign.claim_part(1, OTHER)
    assert silence() == [0]


def test_a_split_that_is_made_while_one_looks_is_followed(tmp_path: Path) -> None:
    base = DashboardCampaign(tmp_path / "before")
    base.ledger.enroll([WHOLE])
    study = open_study(campaign_of(base.url, results=None), ledger=base.url)
    model = ReadModel("study")
    watcher = Watcher(study, model)
    (claim,) = base.ledger.claim(RUNNER, [WHOLE.fingerprint])
    watcher._round()
    split = Split.evenly(str(WHOLE.fingerprint), claim.lease.attempt, claim.lease.token, 2)
    base.ledger.record(split.event(split.cells(WHOLE)))
    watcher._round()  # before its parts are enrolled
    base.ledger.release([claim.lease], "split")
    base.ledger.enroll(split.cells(WHOLE))
    base.ledger.claim(OTHER, [split.cells(WHOLE)[1].fingerprint])
    watcher._round()
    (row,) = model.rows
    assert (row.state, row.parts_ended, row.parts) == ("running", 0, 2)
    assert [slot.row for slot in slots_of(model)] == [row]
    watcher._close()


def test_slots_show_the_cell_and_the_share_counts_parts(tmp_path: Path) -> None:
    campaign = SplitCampaign(tmp_path)
    campaign.end_part(campaign.claim_part(0))
    claims = [campaign.claim_part(1), campaign.claim_part(2)]
    doing = tuple(
        SlotProgress(
            devices=f"cpu:{number}", cell=claim.path, stage="benchmark", done=5, total=10, seconds=9
        )
        for number, claim in enumerate(claims)
    )
    campaign.ledger.report_progress(WorkerProgress(runner=RUNNER, slots=doing))
    reader = Reader(campaign)
    reader.read()
    (row,) = reader.model.rows
    assert [slot.row for slot in slots_of(reader.model)] == [row, row]
    assert overview(reader.model).share == 0.5  # one part, and half of two
    with client_of(campaign.campaigns(), session=True) as client:
        for page in ("", "cells", "machines", f"cell/{row.id}", "plan"):
            text = client.get(f"/c/study/{page}").text
            assert "+part" not in text, page
            assert ("1 of 4 parts" in text) == (page != "plan"), page
        answer = client.get("/api/cells").json()["cells"][0]
        assert (answer["parts"], answer["parts_ended"]) == (4, 1)
        (machine,) = client.get("/api/status").json()["machines"]
        assert machine["running"] == 1


def test_the_cells_of_one_runner_are_released_and_not_those_of_another(tmp_path: Path) -> None:
    campaign = SplitCampaign(tmp_path)
    mine, other = campaign.claim_part(0), campaign.claim_part(1, OTHER)
    with client_of(campaign.campaigns(), session=True) as client:
        order = {"verb": "release", "key": "key-of-one-order", "runner": OTHER}
        answer = client.post("/api/orders", json=order).json()
        assert len(answer["cells"]) == 1
        running = list(
            campaign.ledger.cells(
                states=["running"], fingerprints=[part.fingerprint for part in campaign.parts]
            )
        )
        assert [one.fingerprint for one in running] == [mine.lease.fingerprint]
        order = {"verb": "release", "key": "key-of-a-second-order"}
        row_id = client.get("/api/cells").json()["cells"][0]["id"]
        answer = client.post("/api/orders", json={**order, "cell": row_id}).json()
        assert len(answer["cells"]) == 1
    assert other.lease.fingerprint != mine.lease.fingerprint
