"""A series of checkpoints in a campaign file: an entry for each complete one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchfleet.campaign.base import Campaign
from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell
from benchfleet.errors import CampaignError

TEXT = """\
campaign: study
matrix: {{models: [{model}], benchmarks: [mock_benchmark]}}
"""


def read(folder: Path, model: str) -> Campaign:
    file = folder / "study.yaml"
    file.write_text(TEXT.format(model=model))
    return load_campaign(file)


def checkpoint(folder: Path, name: str, *, age: float = 100.0) -> None:
    """A folder with a file that changed `age` seconds ago."""
    (folder / name).mkdir(parents=True)
    (folder / name / "weights").write_text(name)
    for path in (folder / name, folder / name / "weights"):
        os.utime(path, (time.time() - age,) * 2)


def test_each_checkpoint_is_a_model_the_newest_first(tmp_path: Path) -> None:
    for step in (500, 1000, 2000, 10000):
        checkpoint(tmp_path, f"out/step-{step}")
    checkpoint(tmp_path, "out/step-last")
    entry = '{name: run7, adapter: mock, checkpoints: "out/step-*", every: 1000, priority: 5}'
    campaign = read(tmp_path, entry)
    assert [
        (one.model.name, one.model.series, one.model.step, one.priority)
        for one in campaign.matrix.models
    ] == [
        ("run7-10000", "run7", 10000, 7),
        ("run7-2000", "run7", 2000, 6),
        ("run7-1000", "run7", 1000, 5),
    ]
    assert campaign.matrix.models[0].model.source == str(tmp_path / "out/step-10000")
    cell = campaign.matrix.expand()[0]
    assert Cell.from_dict(cell.to_dict()).model == cell.model


def test_the_series_changes_no_identity_and_no_stored_cell_of_others(tmp_path: Path) -> None:
    checkpoint(tmp_path, "out/step-1")
    (one,) = read(tmp_path, '{name: a, adapter: mock, checkpoints: "out/*"}').matrix.expand()
    (two,) = read(tmp_path, "{name: a, adapter: mock, path: out/step-1}").matrix.expand()
    assert one.fingerprint == two.fingerprint
    assert "series" not in two.to_dict()["model"]


def test_a_folder_that_is_still_written_is_left_out(tmp_path: Path) -> None:
    checkpoint(tmp_path, "out/step-1")
    checkpoint(tmp_path, "out/step-2", age=1.0)
    series = read(tmp_path, '{name: a, adapter: mock, checkpoints: "out/*"}').series
    assert [*series[0].sources()] == [1]
    assert [*series[0].sources(now=lambda: time.time() + 60)] == [1, 2]


def test_a_folder_without_whole_weights_is_left_out(tmp_path: Path) -> None:
    checkpoint(tmp_path, "out/step-1")
    with pytest.raises(CampaignError, match="no complete checkpoint matches"):
        read(tmp_path, '{name: a, checkpoints: "out/*"}')  # of transformers: no config.json


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{adapter: mock, checkpoints: "out/*"}', "has no name"),
        ('{name: a, adapter: mock, checkpoints: "out/*", path: x}', "beside 'checkpoints'"),
        ('{name: a, adapter: mock, checkpoints: "out/*", step: "step"}', "has no group"),
        ('{name: a, adapter: mock, checkpoints: "out/*", step: "(["}', "no regular expression"),
        ('{name: a, adapter: mock, checkpoints: "none/*"}', "no complete checkpoint matches"),
        ('{name: a, adapter: mock, checkpoints: "out/*/"}', "are both step 1"),
        ('{name: a, adapter: mock, checkpoints: "org/x@*"}', "knows no revisions"),
    ],
)
def test_mistakes_are_named(entry: str, message: str, tmp_path: Path) -> None:
    checkpoint(tmp_path, "out/step-1")
    checkpoint(tmp_path, "out/epoch-1")
    with pytest.raises(CampaignError) as caught:
        read(tmp_path, entry)
    assert message in str(caught.value)


def test_revisions_are_those_of_the_cache_where_the_hub_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    refs = tmp_path / "models--org--run" / "refs"
    refs.mkdir(parents=True)
    for name in ("main", "step1000", "step2000", "step2500"):
        commit = name.encode().hex().ljust(40, "0")
        (refs / name).write_text(commit)
        snapshot = tmp_path / "models--org--run" / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        (snapshot / "pytorch_model.bin").write_text(name)
    models = read(tmp_path, '{name: run, checkpoints: "org/run@step*", every: 1000}').matrix.models
    assert [(one.model.name, one.model.source) for one in models] == [
        ("run-2000", "org/run@step2000"),
        ("run-1000", "org/run@step1000"),
    ]
