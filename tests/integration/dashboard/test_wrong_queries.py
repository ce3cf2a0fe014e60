"""A wrong query of a page is answered by a page in plain words, one of the API by JSON."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dashboards import NAME, client_of, every_kind_of_cell


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    campaigns = every_kind_of_cell(tmp_path_factory.mktemp("campaign")).campaigns()
    with client_of(campaigns) as client:
        yield client


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("cells?state=bogus", "state is “bogus”: it should be '', 'pending',"),
        ("cells?state=%3Cb%3E", "state is “<b>”: it should be"),
        ("cells?sort=size", "sort is “size”: it should be"),
        ("plan?zoom=0", "zoom is “0”: it should be greater than or equal to 1."),
        ("matrix?model=" + "m" * 301, "it should have at most 300 characters"),
        ("samples", "cell: it is missing."),
        ("cells?model=alpha&model=beta", "model is “alpha, beta”: it can have one value here"),
        ("cell/abc?tab=none", "tab is “none”: it should be 'log',"),
    ],
)
def test_a_page_says_what_is_wrong_with_its_query(
    client: TestClient, page: str, words: str
) -> None:
    answer = client.get(f"/c/{NAME}/{page}")
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/html")
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    assert words in html.unescape(re.sub(r"</?(b|li)>", "", main))
    up = "../" if "/" in page else ""
    assert f'<a href="{up or "./"}">Overview</a>' in main
    assert f'href="{up}../../static/app.css"' in answer.text


def test_the_api_and_unknown_campaigns_answer_as_before(client: TestClient) -> None:
    answer = client.get("/api/cells", params={"state": "bogus"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["query", "state"]
    assert client.get("/c/other/cells", params={"state": "bogus"}).status_code == 422


def test_a_wrong_query_is_named_before_the_cells_are_read(tmp_path: Path) -> None:
    campaigns = every_kind_of_cell(tmp_path).campaigns()
    with client_of(campaigns, read=False) as client:
        shown = campaigns.get(NAME)
        assert shown is not None
        shown.watcher.ask_to_stop()  # nothing is ever read
        text = client.get(f"/c/{NAME}/cells", params={"state": "bogus"}).text
    assert "This address cannot be shown" in text
    assert "Not known yet" not in text


def test_a_campaign_is_found_without_its_last_slash(client: TestClient) -> None:
    answer = client.get(f"/c/{NAME}?x=1")
    assert (answer.status_code, answer.headers["location"]) == (307, f"./{NAME}/?x=1")
    assert client.get("/c/other").status_code == 404
