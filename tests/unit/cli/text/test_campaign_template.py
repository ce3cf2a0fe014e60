"""The campaign file that a newcomer begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.load import read_campaign
from benchfleet.campaign.yaml_reader import read_yaml
from benchfleet.cli.text.campaign_template import CachedModel, MachineSummary, chosen_models, draft
from benchfleet.domain.resource import Device

GB = 10**9
CPU = MachineSummary(gpus=(), cores=8, ram=16 * GB)
GPUS = MachineSummary(
    gpus=tuple(Device(kind="gpu", index=i, name="H200", memory=150 * GB) for i in (0, 3)),
    cores=8,
    ram=16 * GB,
)


def _drafted(here: MachineSummary, *found: CachedModel, name: str = "study") -> str:
    return draft(
        file="study.yaml", name=name, machine=here, models=found, no_models="No model was found."
    )


def test_the_largest_models_that_fit_are_chosen_and_the_others_stand_by() -> None:
    found = [CachedModel(source=f"org/m{size}", memory=size * GB) for size in (1, 40, 2, 12, 3)]
    assert [model.source for model in chosen_models(CPU, found)] == ["org/m12", "org/m3", "org/m2"]
    text = _drafted(CPU, *found)
    data = read_yaml(text).data
    assert data["matrix"]["models"] == ["org/m12", "org/m3", "org/m2"]
    assert "# - org/m40  # takes about 40.0 GB" in text
    assert list(data["matrix"]["configs"]) == ["dense", "streaming", "top-10%"]


def test_gpus_decide_what_fits_where_there_are_any() -> None:
    model = CachedModel(source="org/m", memory=100 * GB)
    assert chosen_models(CPU, [model]) == []
    text = _drafted(GPUS, model)
    assert read_yaml(text).data["matrix"]["models"] == ["org/m"]
    assert "gpu:0 H200 with 150.0 GB, gpu:3 H200 with 150.0 GB, 8 cores" in text
    assert "# gpus: [0, 3]" in text


def test_without_a_model_the_mock_answers_and_the_reason_is_reported() -> None:
    text = _drafted(CPU)
    source = read_yaml(text)
    assert "# No model was found." in text
    campaign = read_campaign(source, file=Path("/nowhere/study.yaml"), file_label="study.yaml")
    assert [cell.id for cell in campaign.matrix.expand()] == [
        "mock/dense/mock_benchmark",
        "mock/dense/recall_512",
        "mock/dense/recall_1024",
    ]


@pytest.mark.parametrize("name", ["null", "True", "007", "a: b", "x#y", "- a", "naïve 😀", '"q"'])
def test_names_are_read_back_as_they_were(name: str) -> None:
    text = _drafted(CPU, CachedModel(source=name, memory=1), name=name)
    data = read_yaml(text).data
    assert (data["campaign"], data["matrix"]["models"]) == (name, [name])


def test_every_line_that_is_only_a_suggestion_can_be_taken_as_it_stands() -> None:
    """Without its mark each commented setting is right."""
    text = _drafted(CPU)
    for setting in (
        "gpus:",
        "max_concurrent_runs:",
        "limits:",
        "generation:",
        "streaming:",
        "top-10%:",
    ):
        assert f"# {setting}" in text
        text = text.replace(f"# {setting}", setting)
    source = read_yaml(text)
    assert source.flaws == ()
    campaign = read_campaign(source, file=Path("/nowhere/study.yaml"), file_label="study.yaml")
    assert len(campaign.matrix.expand()) == 9
