"""Campaign files on disk that are right, and the cells that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign import benchmarks, defaults, load, models
from benchfleet.campaign.load import Campaign, load_campaign
from benchfleet.results.layout import Layout

from .conftest import GOOD, write


def test_a_campaign_file_becomes_its_cells(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    campaign = load_campaign(file)
    assert campaign.name == "attention/study"
    assert campaign.file == file
    assert campaign.results == tmp_path / "benchmark_results" / "attention_study"
    cells = {str(cell.id): cell for cell in campaign.matrix.expand()}
    assert sorted(cells) == sorted(
        f"{model}/{config}/{work}/r{repeat}"
        for model, config, repeats in [
            ("one", "dense", 2),
            ("one", "streaming", 2),
            ("two", "dense", 2),
        ]
        for work in ("recall_128", "recall_512", "mock_benchmark")
        for repeat in range(repeats + (model == "one" and config == "dense" and work[0] == "m"))
    )
    assert cells["one/dense/recall_128/r0"].workload.generation == {
        "max_new_tokens": 3,
        "temperature": 0,
    }
    assert cells["two/dense/recall_128/r0"].workload.generation == {
        "max_new_tokens": 3,
        "temperature": 0.5,
    }
    assert cells["two/dense/mock_benchmark/r1"].priority == 4
    assert {cell.limits.cell for cell in cells.values()} == {21_600}


def test_reading_a_file_twice_gives_the_same_cells_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    first = load_campaign(write(tmp_path, GOOD))
    second = load_campaign(write(tmp_path / "elsewhere", GOOD, "other.yml"))
    assert first.matrix.expand() == second.matrix.expand()


def test_a_relative_path_is_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GOOD.replace("defaults:", "results: ../out\ndefaults:"))
    monkeypatch.chdir(tmp_path)
    campaign = load_campaign("study.yaml")
    assert campaign.file == tmp_path / "study.yaml"
    assert campaign.results == tmp_path.parent / "out" / "attention_study"
    moved = campaign.with_results("here")
    assert moved == Campaign(
        name=campaign.name,
        file=campaign.file,
        results=tmp_path / "here" / "attention_study",
        matrix=campaign.matrix,
        record=campaign.record,
    )


def test_the_results_folder_may_be_the_campaigns_own_once_it_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    campaign = load_campaign(write(tmp_path, GOOD))
    own = tmp_path / "out" / "attention_study"
    own.mkdir(parents=True)
    assert campaign.with_results("out/attention_study").results == own / "attention_study"
    assert Layout(own).own_id()
    assert campaign.with_results("out/attention_study").results == own
    assert campaign.with_results("out").results == own


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())
    assert load_campaign(file).name == "attention/study"


def test_the_shipped_example_is_right() -> None:
    example = Path(__file__).parents[3] / "examples" / "recall" / "campaign.yaml"
    campaign = load_campaign(example)
    assert len(campaign.matrix.expand()) == 40


def test_the_guide_speaks_of_every_key_and_its_first_example_loads(tmp_path: Path) -> None:
    docs = Path(__file__).parents[3] / "docs"
    guide, served = ((docs / name).read_text() for name in ("campaign.md", "served.md"))
    for key in {*models.KEYS, *benchmarks.KEYS, *defaults.KEYS, *load.MACHINE} - {
        "needs",
        "limits",
        "server",
    }:
        assert f"| `{key}` |" in (served if key in models.SERVED else guide), key
    example = guide.split("```yaml\n")[1].split("```")[0]
    mocked = example.replace("adapter: transformers", "adapter: mock").replace(
        "model_kwargs: {dtype: bfloat16}", "model_kwargs: {}"
    )
    mocked = mocked.replace("path: ./model", "model_kwargs: {answer: '7'}")
    assert len(load_campaign(write(tmp_path, mocked)).matrix.expand()) == 32
