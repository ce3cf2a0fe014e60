"""What a campaign says of serving benchmarks: subsets with parameters, settings of servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.benchmarks.base import is_exclusive
from benchfleet.campaign.load import load_campaign
from benchfleet.errors import CampaignError

CAMPAIGN = """
campaign: s
matrix:
  models:
    - {name: m, adapter: openai, model: x, url: "http://127.0.0.1:1/v1"}
  benchmarks:
    - serving:
        subsets: {c1: {concurrency: 1}, p4: {rate: 4/s}, plain: null}
        duration: 60s
        file_free: 1
"""


def campaign(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    return file


def test_each_subset_has_parameters_of_its_own_over_the_shared_ones(tmp_path: Path) -> None:
    file = campaign(tmp_path, CAMPAIGN.replace("        file_free: 1\n", ""))
    cells = load_campaign(file).matrix.expand()
    params = {cell.workload.subset: cell.workload.params for cell in cells}
    assert params["c1"]["concurrency"] == 1
    assert params["p4"]["rate"] == "4/s"
    assert "rate" not in params["c1"]
    assert {one["duration"] for one in params.values()} == {"60s"}
    assert all(map(is_exclusive, cells))


def test_another_point_changes_no_other_cell(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("        file_free: 1\n", "")
    more = text.replace("plain: null", "plain: null, c9: {concurrency: 9}")
    before = {cell.fingerprint for cell in load_campaign(campaign(tmp_path, text)).matrix.expand()}
    after = {cell.fingerprint for cell in load_campaign(campaign(tmp_path, more)).matrix.expand()}
    assert before < after
    assert len(after) == len(before) + 1


def test_a_mistake_in_a_subset_has_its_line(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("        file_free: 1\n", "").replace("rate: 4/s", "rat: 4/s")
    with pytest.raises(CampaignError) as caught:
        load_campaign(campaign(tmp_path, text))
    (mistake,) = caught.value.mistakes
    assert "did you mean 'rate'" in mistake.message
    assert mistake.key.endswith("p4")


def test_serving_needs_a_server(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("        file_free: 1\n", "").replace(
        '{name: m, adapter: openai, model: x, url: "http://127.0.0.1:1/v1"}',
        "{name: m, adapter: mock, model: x}",
    )
    with pytest.raises(CampaignError, match="measures a server"):
        load_campaign(campaign(tmp_path, text))


SWEEP = """
campaign: s
matrix:
  models:
    - {name: m, adapter: transformers_serve, path: MODEL, server: {args: [--dtype, float32]}}
  configs:
    plain: null
    batching: {server: {args: [--continuous-batching], env: {A: b}}}
  benchmarks:
    - serving: {subsets: {c1: {concurrency: 1}, c2: {concurrency: 2}}}
"""
MODEL = Path(__file__).parents[3] / "examples/recall/model"


def test_a_config_adds_arguments_to_the_server_and_all_its_points_share_one(tmp_path: Path) -> None:
    cells = load_campaign(campaign(tmp_path, SWEEP.replace("MODEL", str(MODEL)))).matrix.expand()
    keys: dict[str, set[str]] = {}
    for cell in cells:
        keys.setdefault(cell.config.name, set()).add(cell.model.load_key)
    assert {name: len(some) for name, some in keys.items()} == {"plain": 1, "batching": 1}
    assert keys["plain"] != keys["batching"]
    servers = {cell.config.name: cell.model.kwargs["server"] for cell in cells}
    assert servers["plain"] == {"args": ["--dtype", "float32"]}
    assert servers["batching"] == {
        "args": ["--dtype", "float32", "--continuous-batching"],
        "env": {"A": "b"},
    }
    assert len({cell.fingerprint for cell in cells}) == 4


def test_settings_of_a_server_need_one_that_is_started_here(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("        file_free: 1\n", "").replace(
        "  benchmarks:", "  configs: {b: {server: {args: [--x]}}}\n  benchmarks:"
    )
    with pytest.raises(CampaignError, match="server"):
        load_campaign(campaign(tmp_path, text))
