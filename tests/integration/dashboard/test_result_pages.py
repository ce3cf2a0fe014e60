"""The pages of whole results: compare and its pictures, plan, cost, and the manifest."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from benchfleet.dashboard.views import results
from benchfleet.domain.rental import CREATED, ENDED, RETURNING, Account, Rental, rental_event
from benchfleet.reports.charts.base import DATA, Chart
from benchfleet.reports.manifest import COLUMNS
from benchfleet.study import Study
from benchfleet.testing import sample_cell
from dashboards import NAME, DashboardCampaign, client_of, every_kind_of_cell


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    campaigns = every_kind_of_cell(tmp_path_factory.mktemp("campaign")).campaigns()
    with client_of(campaigns) as client:
        yield client


def test_what_ran_and_what_waits_is_on_the_plan(client: TestClient) -> None:
    text = client.get(f"/c/{NAME}/plan").text
    assert "4 attempts on" in text
    assert "Waiting <small>1 of 1 cell" in text
    assert re.search(r"Waiting.*benchmark-3.*Newest attempts", text, re.DOTALL)
    assert "The whole time" not in text
    assert "The whole time" in client.get(f"/c/{NAME}/plan", params={"zoom": 2, "at": 0.5}).text
    assert client.get(f"/c/{NAME}/plan", params={"at": 2}).status_code == 422


def test_a_campaign_without_a_race_has_a_page_that_says_so(client: TestClient) -> None:
    assert "No race is configured" in client.get(f"/c/{NAME}/race").text
    assert "/race" not in client.get(f"/c/{NAME}/compare").text


def test_what_each_machine_took_is_on_the_cost_page(client: TestClient) -> None:
    text = client.get(f"/c/{NAME}/cost").text
    assert "By model and config" in text
    assert '<th scope="row">lab1</th><td class="num right">3</td>' in text


def test_what_rented_machines_cost_is_on_the_cost_page(tmp_path: Path) -> None:
    campaign = every_kind_of_cell(tmp_path)
    account = Account(provider="vast", url="https://vast.test", id="me")
    rental = Rental(id="aaaaaaaa", account=account, entry="cheap", hourly=3_600_000)
    campaign.ledger.record(rental.intent("b" * 10))
    for step in (
        rental_event(CREATED, rental.id, instance="7", began=100.0),
        rental_event(RETURNING, rental.id, why="over"),
        rental_event(ENDED, rental.id, cost=310_000, exact=True),
    ):
        campaign.ledger.record(step)
    with client_of(campaign.campaigns()) as client:
        text = client.get(f"/c/{NAME}/cost").text
    assert "Rented machines: 0.310 USD, of which attempts 0.00 USD." in text


def test_the_manifest_has_a_row_for_each_attempt(client: TestClient) -> None:
    page = client.get(f"/c/{NAME}/manifest").text
    assert "the newest 4 of 4 rows" in page
    assert "no memory left" in page
    assert "offer_id" not in page  # a column without a value
    answer = client.get(f"/c/{NAME}/manifest.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="manifest.csv"'
    rows = [*csv.DictReader(io.StringIO(answer.text))]
    assert [*rows[0]] == [*COLUMNS]
    assert [row["status"] for row in rows].count("failed") == 1
    assert len(rows) == 4


def test_a_formula_in_the_manifest_stays_text(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.fail(sample_cell(1), message='=HYPERLINK("x"),\n2')
    with client_of(campaign.campaigns()) as client:
        (row,) = csv.DictReader(io.StringIO(client.get(f"/c/{NAME}/manifest.csv").text))
    assert row["error_message"].startswith("'=HYPERLINK")


def test_a_chart_is_a_picture_and_one_with_nothing_to_show_is_not_found(
    client: TestClient,
) -> None:
    pytest.importorskip("altair")
    address = f"/c/{NAME}/compare"
    assert "compare/scores.svg" in client.get(address).text
    drawn = client.get(f"{address}/scores.svg")
    assert (drawn.headers["content-type"], drawn.text[:4]) == ("image/svg+xml", "<svg")
    assert client.get(f"{address}/scores.png").content.startswith(b"\x89PNG")
    absent = client.get(f"{address}/length.svg")
    assert (absent.status_code, absent.text) == (404, "no result has what this chart shows\n")
    assert client.get(f"{address}/scores.pdf").status_code == 422


def test_the_title_of_a_chart_is_on_the_page_once(client: TestClient) -> None:
    pytest.importorskip("altair")
    page = client.get(f"/c/{NAME}/compare").text
    (source,) = re.findall(r'<img [^>]*src="(compare/scores\.svg[^"]*)"', page)
    assert re.search(r"<h2>[^<]*: scores from", page)
    title = ">[^<]*: scores from"  # as text, not as a description
    assert not re.search(title, client.get(f"/c/{NAME}/{source}").text)
    assert re.search(title, client.get(f"/c/{NAME}/compare/scores.svg").text)  # to download


def test_several_charts_in_a_picture_keep_their_titles() -> None:
    pytest.importorskip("altair")
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"name": DATA},
        "mark": "bar",
    }
    charts = [Chart(kind="k", title=f"t{n}", about="", spec=spec, rows=()) for n in range(2)]
    assert ">t0<" in results.picture(charts[:1], "svg").decode()
    assert ">t0<" not in results.picture(charts[:1], "svg", captioned=True).decode()
    both = results.picture(charts, "svg", captioned=True).decode()
    assert ">t0<" in both
    assert ">t1<" in both


def test_the_heading_holds_for_all_benchmarks(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    for config, scores in (("dense", (1.0, 0.0)), ("sparse", (0.0, 0.0))):
        campaign.finish(sample_cell(1, config=config), scores=scores)
    with client_of(campaign.campaigns()) as client:
        page = client.get(f"/c/{NAME}/compare").text
        assert re.search(r"<h1>benchmark-1[^<]*dense", page)
        assert "verdicts" not in page
    campaign.finish(sample_cell(2, config="dense"))
    with client_of(campaign.campaigns()) as client:
        page = client.get(f"/c/{NAME}/compare").text
        assert "<h1>What won</h1>" in page
        (listed,) = re.findall(r'<ul class="verdicts">(.*?)</ul>', page)
        assert listed.count("<li>") == 2


def test_a_chosen_baseline_is_among_the_compared_configs(client: TestClient) -> None:
    chosen = {"config": "sparse", "baseline": "dense"}
    assert "2 configs that you chose" in client.get(f"/c/{NAME}/compare", params=chosen).text
    unknown = client.get(f"/c/{NAME}/compare", params={"baseline": "<b>"})
    assert unknown.status_code == 404
    assert "the campaign has no config <b>" in unknown.text
    assert unknown.headers["content-type"].startswith("text/plain")


def test_results_are_computed_once_until_a_cell_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = every_kind_of_cell(tmp_path)
    campaigns = campaign.campaigns()
    computed: list[Study] = []
    cost_view = results.cost_view

    def counted(study: Study) -> results.CostView:
        computed.append(study)
        return cost_view(study)

    monkeypatch.setattr(results, "cost_view", counted)
    with client_of(campaigns) as client:
        for _ in range(2):
            client.get(f"/c/{NAME}/cost")
        assert len(computed) == 1
        campaign.finish(sample_cell(3))
        shown = campaigns.get(NAME)
        assert shown is not None
        shown.watcher.refresh()
        text = client.get(f"/c/{NAME}/cost").text
    assert len(computed) == 2
    assert '<th scope="row">lab1</th><td class="num right">4</td>' in text
