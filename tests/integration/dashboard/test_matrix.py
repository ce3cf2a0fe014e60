"""What the tiles of the matrix show of several benchmarks, and what its colours mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.dashboard.views import matrix
from benchfleet.testing import sample_cell
from dashboards import DashboardCampaign, client_of, text_of


def campaign_of_two_benchmarks(root: Path) -> DashboardCampaign:
    """The first has four repeats with the score 1, the second one with 0."""
    campaign = DashboardCampaign(root)
    for repeat in range(4):
        campaign.finish(sample_cell(1, repeat=repeat, repeats=True), scores=(1.0, 1.0))
    campaign.finish(sample_cell(2), scores=(0.0, 0.0))
    return campaign


@pytest.mark.parametrize("unfolded_tiles", [0, 300])  # folded, and not
def test_a_tile_of_several_benchmarks_is_the_mean_of_their_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfolded_tiles: int
) -> None:
    monkeypatch.setattr(matrix, "MAX_UNFOLDED_TILES", unfolded_tiles)
    campaign = campaign_of_two_benchmarks(tmp_path)
    speed = sample_cell(3)
    workload = replace(speed.workload, benchmark="serving", measures_speed=True)
    campaign.finish(replace(speed, workload=workload), scores=(80.0, 80.0))
    with client_of(campaign.campaigns()) as client:
        text = text_of(client, "matrix")
    assert "6 of 6 done, mean 0.500" in text  # no speed among them
    assert "A tile of several benchmarks is the mean over those that all of its row have." in text


@pytest.mark.parametrize("unfolded_tiles", [0, 300])
def test_configs_are_compared_over_the_benchmarks_that_all_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfolded_tiles: int
) -> None:
    """And never over scores of several scales."""
    monkeypatch.setattr(matrix, "MAX_UNFOLDED_TILES", unfolded_tiles)
    campaign = campaign_of_two_benchmarks(tmp_path)
    campaign.finish(sample_cell(1, config="half"), scores=(0.75, 0.75))
    campaign.finish(sample_cell(3), scores=(7.0, 7.0))
    campaign.finish(sample_cell(3, config="half"), scores=(9.0, 9.0))
    with client_of(campaign.campaigns()) as client:
        text = text_of(client, "matrix")
    assert "6 of 6 done, mean 1.000" in text
    assert "2 of 2 done, mean 0.750" in text


def test_the_scale_of_the_colours_has_its_ends(tmp_path: Path) -> None:
    campaign = campaign_of_two_benchmarks(tmp_path)
    with client_of(campaign.campaigns()) as client:
        legend = text_of(client, "matrix").partition("A tile is a mean of scores")[2]
    assert ">0.000<" in legend
    assert ">1.000<" in legend


def test_the_scale_reaches_to_the_scores_of_unfolded_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MAX_UNFOLDED_TILES", 0)
    campaign = campaign_of_two_benchmarks(tmp_path)
    campaign.finish(sample_cell(3), scores=(7.0, 7.0))
    with client_of(campaign.campaigns()) as client:
        legend = text_of(client, "matrix", unfold="tiny").partition("A tile is a mean")[2]
    assert ">0.000<" in legend
    assert ">7.000<" in legend


@pytest.mark.parametrize("is_mean", [True, False])
@pytest.mark.parametrize("unfolded_tiles", [0, 300])
def test_repeats_of_other_sizes_have_the_score_that_reports_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfolded_tiles: int, *, is_mean: bool
) -> None:
    """Their samples are pooled, without those that have no score. Where a headline is no mean of
    its samples, also of another config, the headlines are."""
    monkeypatch.setattr(matrix, "MAX_UNFOLDED_TILES", unfolded_tiles)
    campaign = DashboardCampaign(tmp_path)
    for repeat, scores in enumerate(((1.0, 1.0), (0.0, 1.0, None), (0.0,) * 6 + (1.0,) * 2)):
        for config in ("dense", "half"):
            campaign.finish(
                sample_cell(1, config=config, repeat=repeat, repeats=True),
                scores=scores,
                sample=f"r{repeat}",
                overall=None if is_mean or config == "dense" else 0.7,
            )
    with client_of(campaign.campaigns()) as client:
        compared, shown = text_of(client, "compare"), text_of(client, "matrix")
    mean = "0.417" if is_mean else "0.583"
    assert f"{mean} ±" in compared
    assert f"3 of 3 done, mean {mean}" in shown
