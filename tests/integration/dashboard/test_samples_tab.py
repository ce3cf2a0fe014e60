"""What the tab of samples shows of results that measured little, and of those without samples."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from benchfleet.testing import sample_cell
from dashboards import DashboardCampaign, client_of, text_of


@pytest.fixture
def campaign(tmp_path: Path) -> DashboardCampaign:
    campaign = DashboardCampaign(tmp_path)
    campaign.begin()
    return campaign


def samples_tab(client: TestClient) -> str:
    (cell,) = client.get("/api/cells").json()["cells"]
    return text_of(client, f"cell/{cell['id']}", tab="samples")


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.0}, ["", ""]),
        (
            {"prompt_tokens": 9, "completion_tokens": 0, "seconds": 0.0},
            ["0", ""],
        ),  # an empty answer
        ({"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0.25}, ["", "0.25"]),
        ({"prompt_tokens": 0, "completion_tokens": 7, "seconds": 0.001}, ["7", "0.00"]),
    ],
)
def test_what_no_sample_measured_is_empty(
    campaign: DashboardCampaign, measured: dict[str, float], shown: list[str]
) -> None:
    campaign.finish(sample_cell(1), measured=measured)
    with client_of(campaign.campaigns()) as client:
        numbers = re.findall(r'<td class="num right">(.*?)</td>', samples_tab(client))
    assert numbers == ["1.000", *shown, "0.000", *shown, "1.000", *shown]


def test_a_result_without_samples_says_that_its_benchmark_reports_none(
    campaign: DashboardCampaign,
) -> None:
    path = campaign.finish(sample_cell(1), scores=())
    with client_of(campaign.campaigns()) as client:
        assert "This benchmark reports no samples." in samples_tab(client)
        shutil.rmtree(campaign.layout.published(path))
        text = samples_tab(client)
    assert "No samples are here yet: the result is on another machine" in text


@pytest.mark.parametrize(("scores", "linked"), [((), False), ((1.0, 0.0), True)])
def test_rows_with_samples_alone_are_compared_by_sample(
    campaign: DashboardCampaign, scores: tuple[float, ...], linked: bool
) -> None:
    for config in ("dense", "sparse"):
        campaign.finish(sample_cell(1, config=config), scores=scores)
    with client_of(campaign.campaigns()) as client:
        assert ("by sample</a>" in text_of(client, "matrix")) == linked
        ids = [one["id"] for one in client.get("/api/cells").json()["cells"]]
        text = client.get("/c/study/samples", params={"cell": ids}).text
    assert ("These cells have no sample in common." in text) == (not linked)


def test_wrong_samples_are_those_that_the_side_by_side_counts_as_wrong(
    campaign: DashboardCampaign,
) -> None:
    campaign.finish(sample_cell(1), scores=(0.25, 0.5, 1.0, 0.0))
    with client_of(campaign.campaigns()) as client:
        (cell,) = client.get("/api/cells").json()["cells"]
        text = text_of(client, f"cell/{cell['id']}", tab="samples", show="wrong")
    assert "1 to 2 of 2 samples, of 4 recorded" in text
    assert re.findall("sample-[0-9]", text) == ["sample-0", "sample-3"]
