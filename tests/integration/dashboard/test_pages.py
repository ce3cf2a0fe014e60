"""What the pages and the API show of a campaign with every kind of cell."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from benchfleet.dashboard.render import PAGES, span
from benchfleet.dashboard.stream import message_since
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


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    campaigns = every_kind_of_cell(tmp_path_factory.mktemp("campaign")).campaigns()
    with client_of(campaigns) as client:
        yield client


def cell_id(client: TestClient, state: str) -> str:
    return str(client.get("/api/cells", params={"state": state}).json()["cells"][0]["id"])


def test_the_overview_says_how_far_it_is_and_what_runs(client: TestClient) -> None:
    text = text_of(client, "")
    assert "2 of 5 cells done, 1 failed, 1 running" in text
    assert "<h2>Failures <small>1 cell</small></h2>" in text
    assert "40/100" in text
    assert "gpu:0" in text
    assert "load: oom" in text
    assert "no memory left" in text


def test_the_matrix_has_models_configs_and_benchmarks(client: TestClient) -> None:
    text = text_of(client, "matrix")
    assert "5 cells: 1 model × 2 configs" in text
    assert "benchmark-1" in text
    assert "0.667" in text
    narrowed = text_of(client, "matrix", config="sparse")
    assert "2 cells: 1 model × 1 config" in narrowed
    assert text_of(client, "matrix", model="unknown").count("No cell matches")


def test_filters_come_before_limits(client: TestClient) -> None:
    page = client.get("/api/cells", params={"limit": 1, "state": "success"}).json()
    assert (page["total"], len(page["cells"])) == (2, 1)
    rest = client.get(
        "/api/cells", params={"limit": 1, "state": "success", "after": page["next"]}
    ).json()
    assert rest["next"] is None
    assert rest["cells"][0]["config"] == "sparse"
    assert "1 to 1 of 1 cell" in text_of(client, "cells", q="no MEMORY")


@pytest.mark.parametrize("column", ["score", "samples", "seconds", "changed_at"])
def test_cells_are_sorted_before_limits_and_what_is_unknown_comes_last(
    client: TestClient, column: str
) -> None:
    def sorted_by(order: str) -> list[Any]:
        found: list[dict[str, Any]] = []
        after: int | None = -1
        while after is not None:
            words: dict[str, Any] = {"sort": order, "limit": 2, "after": after}
            page = client.get("/api/cells", params=words).json()
            assert page["total"] == 5
            found += page["cells"]
            after = page["next"]
        return [cell[column] or None for cell in found]

    rising, falling = sorted_by(column), sorted_by(f"-{column}")
    known = sorted(value for value in rising if value is not None)
    assert len(known) >= 2
    assert rising == known + [None] * (5 - len(known))
    later = pytest.approx(known[::-1], abs=30 if column == "seconds" else 0)  # one runs on
    assert falling[: len(known)] == later
    assert falling[len(known) :] == [None] * (5 - len(known))


def test_a_head_sorts_the_list_and_its_csv(client: TestClient) -> None:
    first = client.get(f"/c/{NAME}/cells", params={"state": "success"}).text
    assert 'href="cells?sort=-score&amp;state=success"' in first
    page = client.get(f"/c/{NAME}/cells", params={"sort": "-score"}).text
    assert 'aria-sort="descending"><a href="cells?sort=score"' in page
    assert 'href="cells.csv?sort=-score"' in page
    lines = client.get(f"/c/{NAME}/cells.csv", params={"sort": "-score"}).text.splitlines()
    scores = [float(row["score"]) for row in csv.DictReader(lines) if row["score"]]
    assert len(scores) >= 2
    assert scores == sorted(scores, reverse=True)
    assert re.search(r'<th scope="col">\s*<a href="cells\?sort=path" title="Sort by cell">', page)
    upwards = client.get(f"/c/{NAME}/cells", params={"sort": "stage"}).text
    assert re.search(r'aria-sort="ascending">\s*<a href="cells\?sort=-stage"', upwards)
    downwards = client.get(f"/c/{NAME}/cells", params={"sort": "-stage"}).text
    assert 'href="cells" title="Sort by failure"' in downwards  # as the campaign has it
    for wrong in ({"sort": "message"}, {"sort": "-"}, {"after": "-50"}):
        assert client.get(f"/c/{NAME}/cells", params=wrong).status_code == 422


def test_the_csv_has_every_cell(client: TestClient) -> None:
    lines = client.get(f"/c/{NAME}/cells.csv").text.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("path,model,config")


def test_a_failure_has_its_cells_and_what_to_do(client: TestClient) -> None:
    text = text_of(client, "failures")
    assert "tried again" not in text
    assert "1 cell without a whole result, 1 cause" in text
    assert "Set a smaller batch_size" in text
    (group,) = client.get("/api/failures").json()["groups"]
    assert (group["count"], group["kind"]) == (1, "oom")


def test_the_way_out_of_a_script_without_a_result_is_to_correct_its_report(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin()
    campaign.fail(sample_cell(1), "accuracy is nan, not a finite number", "bad_result")
    with client_of(campaign.campaigns()) as client:
        text = text_of(client, "failures")
    assert "fix what it writes" in text
    assert "answers are kept" not in text
    assert "--kind bad_result &amp;&amp; benchfleet work" in text


def test_a_campaign_whose_retries_helped_says_so(tmp_path: Path) -> None:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin()
    once = campaign.finish(sample_cell(1))
    campaign.fail(sample_cell(2), retry_in=0.0)
    twice = campaign.finish(sample_cell(2))
    again = campaign.fail(sample_cell(3), "the disk is full", retry_in=900.0)
    with client_of(campaign.campaigns()) as client:
        text = re.sub(r"<wbr>", "", text_of(client, "failures").partition("<main")[2])
    head, before, after = re.split("Failed, and tried again later|Done after more than", text)
    assert "No cell has failed for good" in head
    assert "2 of 3 cells</a> ended, none of them failed" in head
    assert again in before
    assert "the disk is full" in before
    assert "cells?state=retrying&amp;sort=-changed_at" in before
    assert twice in after
    assert "attempt 2 on lab1" in after
    assert once not in text


def test_the_machines_have_their_slots(client: TestClient) -> None:
    text = text_of(client, "machines")
    assert "1 machine at work" in text
    assert "lab1" in text
    (machine,) = client.get("/api/status").json()["machines"]
    assert machine["hostname"] == "lab1"
    assert machine["status"] == "Running"
    assert "phase" in machine


def test_a_failed_cell_opens_at_its_log(client: TestClient) -> None:
    text = text_of(client, f"cell/{cell_id(client, 'failed')}")
    assert '<span class="ansi-red">out of memory</span>' in text
    assert "no memory left" in text


def test_a_done_cell_opens_at_its_samples(client: TestClient) -> None:
    text = text_of(client, f"cell/{cell_id(client, 'success')}")
    assert "1 to 3 of 3 samples" in text
    assert "answer 0" in text
    wrong = text_of(client, f"cell/{cell_id(client, 'success')}", tab="samples", show="wrong")
    assert "1 to 1 of 1 sample, of 3 recorded" in wrong


def test_two_configs_side_by_side_by_sample(client: TestClient) -> None:
    text = text_of(client, f"cell/{cell_id(client, 'success')}", tab="side")
    assert "3 of 3 samples" in text
    assert "<del>answer</del><ins>other</ins> 2" in text
    assert "right to wrong" in text
    only = text_of(client, f"cell/{cell_id(client, 'success')}", tab="side", group="only_a")
    assert "1 of 1 sample" in only


def test_several_cells_by_sample(client: TestClient) -> None:
    done = client.get("/api/cells", params={"state": "success"}).json()["cells"]
    ids = [one["id"] for one in done]
    text = client.get(f"/c/{NAME}/samples", params={"cell": ids}).text
    assert "1 to 3 of 3 samples" in text
    assert "A is" in text
    lost = client.get(f"/c/{NAME}/samples", params={"cell": ids, "group": "only_a"}).text
    assert "1 to 1 of 1 sample" in lost
    assert "Choose a second cell" in client.get(f"/c/{NAME}/samples", params={"cell": ids[0]}).text
    other = [ids[0], cell_id(client, "failed")]
    assert "are left out" in client.get(f"/c/{NAME}/samples", params={"cell": other}).text
    many = client.get(f"/c/{NAME}/samples", params={"cell": [*ids, *"abcde"]})
    assert many.status_code == 422
    assert client.get(f"/c/{NAME}/samples", params={"cell": "no"}).status_code == 404
    assert f"samples?cell={ids[0]}&amp;cell={ids[1]}" in text_of(client, "matrix")


def test_the_axes_of_the_matrix_are_swapped(client: TestClient) -> None:
    text = text_of(client, "matrix", swap="true")
    assert "5 cells: 2 configs × 1 model" in text
    assert re.search(r"▾ sparse\s*</a>", text)
    assert "tiny × sparse / benchmark-1" in text


def test_filters_are_chips_that_can_be_taken_away(client: TestClient) -> None:
    text = text_of(client, "matrix", config="sparse", q="benchmark", show="state")
    assert 'href="matrix?q=benchmark&amp;show=state"' in text  # without the config
    assert 'href="matrix?config=sparse&amp;show=state"' in text
    assert 'href="matrix?changed=1h&amp;config=sparse&amp;q=benchmark&amp;show=state"' in text
    recent = client.get("/api/cells", params={"changed": "1h"}).json()
    assert recent["total"] == 4  # not the one that only waits
    assert client.get("/api/cells", params={"host": "lab1", "changed": "1h"}).json()["total"] == 4
    narrowed = text_of(client, "matrix", host="lab1", changed="10min")
    assert "1 model × 2 configs" in narrowed
    assert ">benchmark-3<" not in narrowed.partition("<tbody>")[2]
    assert client.get(f"/c/{NAME}/cells", params={"changed": "2h"}).status_code == 422


def test_chosen_configs_are_compared(client: TestClient) -> None:
    text = text_of(client, "compare", config="dense")
    assert "Compared: 1 model and 1 config that you chose" in text
    assert client.get(f"/c/{NAME}/compare", params={"config": "none"}).status_code == 404
    assert client.get(f"/c/{NAME}/compare", params={"config": ["a"] * 7}).status_code == 422


def test_a_log_is_read_in_parts_and_whole(client: TestClient) -> None:
    address = f"/c/{NAME}/cell/{cell_id(client, 'failed')}"
    assert client.get(f"{address}/log.txt").content.startswith(b"loading\n\x1b[31m")
    part = client.get(f"{address}/log", params={"after": 8})
    assert part.text.count("<li>") == 1
    assert client.get(f"{address}/log", params={"before": 8}).text.strip() == "<li>loading</li>"


def test_every_tab_of_every_cell_is_there(client: TestClient) -> None:
    for one in client.get("/api/cells").json()["cells"]:
        for tab in TABS:
            text_of(client, f"cell/{one['id']}", tab=tab)


def test_every_page_has_one_heading_of_the_first_level(client: TestClient) -> None:
    failed = cell_id(client, "failed")
    for page in ("", *list(PAGES)[1:], "cells", f"cell/{failed}"):
        assert text_of(client, page).count("<h1") == 1, page
    assert text_of(client, "order", verb="retry", cell=failed).count("<h1") == 1


def test_a_round_span_has_no_zeros_at_its_end() -> None:
    assert [span(seconds) for seconds in (45, 185, 600, 3600, 4200)] == [
        "45 s",
        "3 min 05 s",
        "10 min",
        "1 h",
        "1 h 10 min",
    ]


def test_unknown_addresses_say_so(client: TestClient) -> None:
    assert client.get("/c/other/").status_code == 404
    assert client.get(f"/c/{NAME}/cell/{'0' * 20}").status_code == 404
    assert client.get(f"/c/{NAME}/matrix", params={"state": "odd"}).status_code == 422
    assert client.get("/api/cells/none").json() == {"detail": "no such cell in this campaign"}


def test_links_are_relative(client: TestClient) -> None:
    for page in ("", *list(PAGES)[1:4], f"cell/{cell_id(client, 'failed')}"):
        for address in re.findall(r'(?:href|src|action)="([^"]+)"', text_of(client, page)):
            assert not address.startswith(("/", "http")), address


def test_every_page_is_there_while_the_ledger_is_read(tmp_path: Path) -> None:
    campaigns = every_kind_of_cell(tmp_path).campaigns()
    with slow_reading(2), client_of(campaigns, read=False) as client:
        for page in ("", "matrix", "cells", "failures", "machines", "plan"):
            text = text_of(client, page)
            assert "The ledger is being read" in text
            assert '<meta http-equiv="refresh"' in text  # in a browser without script
        shown = campaigns.get(NAME)
        assert shown is not None
        assert message_since(shown.watcher.model, "")["reading"] == 2
        shown.watcher.model.failed("it is away")
        text = text_of(client, "matrix")
        assert "The ledger cannot be read since" in text
        assert 'data-unread="yes"' in text  # its script loads the whole page when it is back
