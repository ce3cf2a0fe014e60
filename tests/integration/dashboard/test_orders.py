"""Orders: what each does, that it acts once, and that it names its giver."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from benchfleet.domain.phase import GateDecision
from benchfleet.domain.slots import ANSWERED, REQUESTED, Answer, SlotsCommand
from benchfleet.ledger.base import Ledger
from benchfleet.orders.base import Origin
from benchfleet.orders.slots import send
from benchfleet.testing import sample_cell
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


def order(client: TestClient, verb: str, key: str = KEY, **ids: str) -> dict[str, object]:
    answer = client.post("/api/orders", json={"verb": verb, "key": key, **ids})
    assert answer.status_code == 200, answer.text
    values: dict[str, object] = answer.json()
    return values


def states(client: TestClient) -> dict[str, int]:
    values: dict[str, int] = client.get("/api/status").json()["states"]
    return values


def test_a_person_confirms_a_retry_and_it_names_who_ordered_it(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    failed = cell_id(client, "failed")
    page = client.get(f"/c/{NAME}/order", params={"verb": "retry", "cell": failed}).text
    assert "1 cell goes back to waiting" in page
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    receipt = client.post(f"/c/{NAME}/orders", data=fields).text
    assert "Ordered by" in receipt
    assert states(client)["failed"] == 0
    assert "retry ordered by" in client.get(f"/c/{NAME}/cell/{failed}?tab=events").text
    again = client.post(f"/c/{NAME}/orders", data=fields).text
    assert "it acted once" in again
    assert len(campaign.ledger.events(kinds={"retry_asked"})) == 1


def test_a_group_of_failures_is_retried_together(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    campaign.fail(sample_cell(7), message="no memory left")
    campaign.fail(sample_cell(8), message="another reason", kind="crash")
    client.post("/no")  # a viewer, so that the next page is fresh
    (group,) = (one for one in client.get("/api/failures").json()["groups"] if one["kind"] == "oom")
    assert len(order(client, "retry", group=group["id"])["cells"]) == group["count"]  # type: ignore[arg-type]


def asked(client: TestClient, **values: object) -> str:
    """The question about what was selected in a form."""
    answer = client.post(f"/c/{NAME}/order", data=values)
    assert answer.status_code == 200, answer.text
    return answer.text


def confirmed(client: TestClient, question: str) -> str:
    """The receipt, after the question was confirmed as a browser does."""
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', question):
        fields.setdefault(name, []).append(value)
    return client.post(f"/c/{NAME}/orders", data=fields).text


def test_selected_cells_are_retried_together_and_once(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    campaign.fail(sample_cell(7))
    ids = [one["id"] for one in client.get("/api/cells").json()["cells"]]
    question = asked(client, verb="retry", cell=ids)
    assert "2 cells go back to waiting, with all tries. 4 other cells stay as they are" in question
    assert "2 cells:" in confirmed(client, question)
    assert "it acted once" in confirmed(client, question)
    assert len(campaign.ledger.events(kinds={"retry_asked"})) == 2
    assert states(client)["failed"] == 0


def test_the_api_takes_several_cells(client: TestClient, campaign: DashboardCampaign) -> None:
    campaign.fail(sample_cell(7))
    found = client.get("/api/cells", params={"state": "failed"}).json()["cells"]
    answer = client.post(
        "/api/orders", json={"verb": "retry", "key": KEY, "cells": [one["id"] for one in found]}
    )
    assert len(answer.json()["cells"]) == 2


def tiles_of(client: TestClient, **filters: str) -> list[str]:
    """The tiles of several cells in the matrix, as their checkboxes name them."""
    text = client.get(f"/c/{NAME}/matrix", params=filters).text
    return re.findall(r'name="tile" value="(\w+)"', text)


def test_a_selected_tile_means_the_cells_that_the_filters_leave(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    campaign.ledger.enroll([sample_cell(4, config="dense"), sample_cell(5, config="dense")])
    assert states(client)["pending"] == 3
    (dense,) = tiles_of(client, config="dense")
    assert "3 cells are cancelled" in asked(client, verb="cancel", tile=dense)
    question = asked(client, verb="cancel", tile=dense, q="benchmark-4", state="pending")
    assert "1 cell is cancelled" in question
    assert "1 cell:" in confirmed(client, question)
    assert states(client)["cancelled"] == 1


def test_an_order_about_no_selection_says_so(client: TestClient) -> None:
    assert "no cell is selected" in asked(client, verb="retry")
    assert "no cell is selected" in asked(client, verb="cancel", q="benchmark")


def test_a_key_acts_once_even_after_the_server_was_started_again(
    campaign: DashboardCampaign,
) -> None:
    with client_of(campaign.campaigns(), session=True) as client:
        failed = cell_id(client, "failed")
        assert order(client, "retry", cell=failed)["state"] == "done"
        assert order(client, "retry", cell=failed)["state"] == "repeated"
    (record,) = (one for one in campaign.ledger.cells(states=["pending"]) if one.attempt)
    campaign.ledger.claim(RUNNER, [record.fingerprint])
    with client_of(campaign.campaigns(), session=True) as client:
        order(client, "cancel", key="another-key", cell=failed)
        assert order(client, "retry", cell=failed)["state"] == "repeated"
    assert len(campaign.ledger.events(kinds={"retry_asked"})) == 1


def test_two_requests_at_once_with_one_key_act_once(
    client: TestClient, campaign: DashboardCampaign
) -> None:
    failed = cell_id(client, "failed")
    threads = [
        threading.Thread(target=order, args=(client, "retry"), kwargs={"cell": failed})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(campaign.ledger.events(kinds={"retry_asked"})) == 1


def test_a_device_that_is_refused_says_so_on_the_receipt(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_at_once(ledger: Ledger, command: SlotsCommand, id: str, origin: Origin) -> int:
        request = send(ledger, command, id, origin)
        ledger.record(Answer(runner=id, request=request, refused=("it is ending",)).event())
        return request

    monkeypatch.setattr("benchfleet.orders.slots.send", answer_at_once)
    ids = {"verb": "drain", "runner": RUNNER, "device": "gpu:0", "key": KEY}
    text = client.post(f"/c/{NAME}/orders", data=ids).text
    assert re.search(r"drain gpu:0: ordered by \S+ .{19}, refused by lab1 .*: it is ending", text)


def test_cancel_and_release_end_what_runs(client: TestClient) -> None:
    running = cell_id(client, "running")
    assert len(order(client, "release", runner=RUNNER)["cells"]) == 1  # type: ignore[arg-type]
    assert states(client)["running"] == 0
    order(client, "cancel", key="another-key", cell=running)
    assert states(client)["cancelled"] == 1


def test_a_device_is_drained_by_its_runner(client: TestClient, campaign: DashboardCampaign) -> None:
    answered = threading.Event()

    def runner() -> None:
        while not (asked := campaign.ledger.events(kinds={REQUESTED})):
            answered.wait(0.05)
        answer = Answer(runner=RUNNER, request=asked[0].seq, done=("gpu:0 drains",))
        campaign.ledger.record(answer.event())

    thread = threading.Thread(target=runner)
    thread.start()
    receipt = order(client, "drain", runner=RUNNER, device="gpu:0")
    thread.join()
    assert receipt["answers"] == ["gpu:0 drains"]
    (answer,) = campaign.ledger.events(kinds={ANSWERED})
    assert receipt["answered_at"] == answer.at
    machines = client.get(f"/c/{NAME}/machines").text
    assert re.search(r"drain gpu:0: ordered by \S+ .{19}, accepted by lab1 ", machines)
    assert "11111111 accepted: gpu:0 drains" in client.get(f"/c/{NAME}/").text
    (asked,) = campaign.ledger.events(kinds={REQUESTED})
    assert (asked.data["action"], asked.data["devices"]) == ("drain", ["gpu:0"])
    assert asked.data["by"]


def test_a_reader_gets_no_form(campaign: DashboardCampaign) -> None:
    with client_of(campaign.campaigns()) as client:
        failed = cell_id(client, "failed")
        page = client.get(f"/c/{NAME}/order", params={"verb": "retry", "cell": failed}).text
        assert 'method="post"' not in page
        assert client.post("/api/orders", json={"verb": "retry", "key": KEY}).status_code == 403


def test_a_decision_on_a_gate_is_shown(client: TestClient, campaign: DashboardCampaign) -> None:
    decision = GateDecision(phase="e0", state="opened", by="me@here", override=True)
    campaign.ledger.record(decision.event())
    client.get("/api/status")
    campaign.ledger.record(decision.event())
    assert order(client, "retry", cell=cell_id(client, "failed"))["state"] == "done"
    assert "gate of e0 opened by me@here" in client.get(f"/c/{NAME}/").text
