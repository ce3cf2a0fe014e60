"""The ``race`` of a campaign file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.campaign_record import newest_record
from benchfleet.domain.race import RaceSettings
from benchfleet.errors import CampaignError

TEXT = """\
campaign: study
race: {race}
defaults: {{repeats: {repeats}}}
matrix:
  models: [{{name: m1, adapter: mock}}, {{name: m2, adapter: mock, priority: 1}}]
  configs: {{dense: null, window: {{attention: [{{local: 8}}]}}}}
  benchmarks: [mock_benchmark]
"""


def load(folder: Path, race: str, repeats: int = 3) -> Campaign:
    file = folder / "study.yaml"
    file.write_text(TEXT.format(race=race, repeats=repeats))
    return load_campaign(file)


def test_a_race_has_defaults_and_settings(tmp_path: Path) -> None:
    assert load(tmp_path, "true").race == RaceSettings(confidence=0.95, keep=None)
    assert load(tmp_path, "{}").race == RaceSettings()
    assert load(tmp_path, "{confidence: 99%, keep: win*}").race == RaceSettings(
        confidence=0.99, keep=("win*",)
    )
    assert load(tmp_path, "{keep: []}").race == RaceSettings(keep=())
    assert load(tmp_path, "false").race is None
    assert load(tmp_path, "null").race is None


def test_hosts_without_the_file_know_it(tmp_path: Path) -> None:
    record = load(tmp_path, "{confidence: 0.9}").record
    assert record
    assert newest_record([record.event()]) == record
    assert record.race == RaceSettings(confidence=0.9)


def test_the_repeats_of_a_model_go_in_turn(tmp_path: Path) -> None:
    cells = load(tmp_path, "true").matrix.expand()
    order = sorted(cells, key=lambda cell: -cell.priority)
    assert [(cell.model.name, cell.repeat) for cell in order] == [
        (model, repeat) for model in ("m2", "m1") for repeat in (0, 0, 1, 1, 2, 2)
    ]
    plain = load(tmp_path, "false").matrix.expand()
    assert {cell.fingerprint for cell in plain} == {cell.fingerprint for cell in cells}
    assert {cell.priority for cell in plain} == {0, 1}


@pytest.mark.parametrize(
    ("race", "message"),
    [
        ("yes please", "must be true, or a mapping such as {confidence: 95%}, not 'yes please'"),
        ("{confidence: 1}", "invalid confidence 1: use 50% or more, and less than 100%"),
        ("{confidence: 20%}", "invalid confidence 0.2: use 50% or more, and less than 100%"),
        ("{keep: sparse}", "no config is called 'sparse'; there are dense, window"),
        ("{kep: dense}", "no key 'kep' here; did you mean 'keep'?"),
    ],
)
def test_mistakes_say_what_to_write(tmp_path: Path, race: str, message: str) -> None:
    with pytest.raises(CampaignError) as error:
        load(tmp_path, race)
    assert [one.message for one in error.value.mistakes] == [message]


def test_a_race_without_repeats_stops_nothing(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="needs repeats"):
        load(tmp_path, "true", repeats=1)
