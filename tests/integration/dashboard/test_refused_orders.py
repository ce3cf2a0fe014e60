"""Orders that are refused, and what of an order is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchfleet.dashboard.order_targets import OrderTarget, target_of
from benchfleet.domain.attempt import Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.race import RACE, RaceStop
from dashboards import NAME, RUNNER, DashboardCampaign, client_of, every_kind_of_cell

KEY = "key-of-one-order"


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    return every_kind_of_cell(tmp_path)


@pytest.fixture
def client(campaign: DashboardCampaign) -> Iterator[TestClient]:
    with client_of(campaign.campaigns(), session=True, read=False) as client:
        yield client  # the first request of a test reads what it wrote


def cell_id(client: TestClient, state: str) -> str:
    return str(client.get("/api/cells", params={"state": state}).json()["cells"][0]["id"])


@pytest.mark.parametrize(
    ("verb", "ids"),
    [
        ("retry", {"cell": "unknown"}),
        ("retry", {"group": "unknown"}),
        ("retry", {}),
        ("drain", {"runner": "unknown", "device": "gpu:0"}),
        ("drain", {"runner": RUNNER, "device": "gpu:7"}),
        ("drain", {"runner": RUNNER, "device": "gpu:0; rm -rf /"}),
        ("add", {"runner": RUNNER, "device": "../gpu:0"}),
        ("override", {"phase": "unknown"}),
        ("stop", {}),
    ],
)
def test_an_order_about_nothing_is_refused_and_says_why(
    client: TestClient, campaign: DashboardCampaign, verb: str, ids: dict[str, str]
) -> None:
    before = campaign.ledger.last_event()
    answer = client.post("/api/orders", json={"verb": verb, "key": KEY, **ids})
    assert answer.status_code == 409
    assert len(answer.json()["detail"]) > 10
    assert client.get(f"/c/{NAME}/order", params={"verb": verb, **ids}).status_code == 200
    assert campaign.ledger.last_event() == before


@pytest.mark.parametrize(
    "values",
    [{"verb": "run"}, {"verb": "retry", "key": "short"}, {"verb": "retry", "key": "a b c d e f g"}],
)
def test_only_known_verbs_and_plain_keys_are_taken(
    client: TestClient, values: dict[str, str]
) -> None:
    assert client.post("/api/orders", json={"key": KEY, **values}).status_code == 422


def test_a_retry_of_raced_cells_names_what_brings_them_back(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    (waiting,) = campaign.ledger.cells(states=["pending"])
    stop = RaceStop(
        model="m",
        config="bad",
        benchmark="b",
        leader="good",
        samples=40,
        difference=-0.5,
        interval=(-0.9, -0.1),
        confidence=0.95,
        cells=(str(waiting.fingerprint),),
    )
    campaign.ledger.record(stop.event())
    cancel = Event(kind="cancel_asked", fingerprint=waiting.fingerprint, data={"by": RACE})
    campaign.ledger.record(cancel)
    raced, failed = cell_id(client, "skipped"), cell_id(client, "failed")
    why = "1 cell stays stopped by the race; `benchfleet retry --raced` brings it back"
    body = {"verb": "retry", "key": KEY, "cell": raced}
    answer = client.post("/api/orders", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (409, f"nothing to retry: {why}")
    ids = {"verb": "retry", "cell": [raced, failed]}
    page = client.get(f"/c/{NAME}/order", params=ids).text
    assert f"1 cell goes back to waiting, with all tries. {why}." in page
    assert "other cell" not in page


def test_an_order_takes_500_cells_as_its_description_says(client: TestClient) -> None:
    ids = [f"unknown-{number}" for number in range(501)]
    schema = client.get("/api/openapi.json").json()["components"]["schemas"]["OrderRequest"]
    assert schema["properties"]["cells"]["maxItems"] == 500
    for names, status in (
        ({"cells": ids[:500]}, 409),  # none of them exists
        ({"cells": ids}, 422),
        ({"cells": ids[:500], "cell": ids[500]}, 422),
    ):
        body = {"verb": "retry", "key": KEY, **names}
        assert client.post("/api/orders", json=body).status_code == status


def test_unknown_cells_are_refused_by_name(client: TestClient) -> None:
    failed = cell_id(client, "failed")
    body = {"verb": "retry", "key": KEY, "cells": [failed, "nope"]}
    answer = client.post("/api/orders", json=body).json()
    assert len(answer["cells"]) == 1
    assert answer["refused"] == ["no such cell: nope"]
    alone = client.post("/api/orders", json={"verb": "cancel", "key": "another-key", "cell": "no"})
    assert (alone.status_code, alone.json()["detail"]) == (409, "no such cell: no")


@pytest.mark.parametrize("verb", ["release", "cancel"])
def test_an_order_about_cells_that_ended_since_the_page_was_read_is_refused(
    client: TestClient, campaign: DashboardCampaign, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    running = cell_id(client, "running")
    (record,) = campaign.ledger.cells(states=["running"])

    def then_it_ends(*words: Any) -> OrderTarget:
        target = target_of(*words)
        campaign.ledger.finish(record.lease, Outcome(state="failed"))
        return target

    monkeypatch.setattr("benchfleet.dashboard.actions.target_of", then_it_ends)
    names = {"runner": RUNNER} if verb == "release" else {"cell": running}
    answer = client.post("/api/orders", json={"verb": verb, "key": KEY, **names})
    assert answer.status_code == 409
    assert f"nothing to {verb}" in answer.json()["detail"]
