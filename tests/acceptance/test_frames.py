"""`benchfleet.load`: results as data frames, from a file, a folder and a ledger's address."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import benchfleet
from benchfleet.errors import BenchfleetError, MissingExtra, UnknownName

from .conftest import MOCK, User


@pytest.fixture(params=["file", "folder", "address"])
def source(request: pytest.FixtureRequest, finished: User) -> str:
    return {
        "file": str(finished.folder / "study.yaml"),
        "folder": str(finished.results),
        "address": f"sqlite:///{finished.results / 'ledger.db'}",
    }[request.param]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_each_source_gives_the_same_frames(source: str, finished: User, library: Any) -> None:
    results = benchfleet.load(source, frames=library)
    cells = results.cells
    assert sorted(cells["model"]) == ["m1", "m2"]
    assert set(cells["state"]) == {"success"}
    samples = results.samples
    assert len(samples) == 2 * 5
    for cell, score in zip(cells["cell"], cells["score"], strict=True):
        scores = [s for c, s in zip(samples["cell"], samples["score"], strict=True) if c == cell]
        assert sum(scores) / len(scores) == pytest.approx(score)
    assert len(results.attempts) == 2
    assert set(results.attempts["how"]) == {"finished"}
    assert results.status().counts["success"] == 2
    assert type(cells).__module__.split(".")[0] == library


def test_pairs_and_changes_are_frames_too(finished: User) -> None:
    results = benchfleet.load(finished.folder / "study.yaml")
    pairs = results.comparisons
    assert len(pairs) == 1
    changes = results.compare("models=m1", "models=m2")
    assert list(changes["config"]) == ["dense"]
    assert (changes["n"] == 5).all()


def test_frames_are_joined_by_label(finished: User) -> None:
    results = benchfleet.load(finished.folder / "study.yaml")
    joined = results.cells.merge(results.comparisons, on="label")
    assert len(joined) == 2
    assert set(results.compare("models=m1", "models=m2")["label"]) == set(results.cells["label"])


def test_suites_are_a_frame(finished: User) -> None:
    file = finished.folder / "study.yaml"
    file.write_text(file.read_text() + "suites: {core: {benchmarks: [mock_benchmark]}}\n")
    suites = benchfleet.load(file).suites
    assert list(suites["suite"]) == ["core", "core"]
    assert suites["mean"].notna().all()


def test_a_campaign_without_a_ledger_is_warned_about(user: User) -> None:
    user.write(MOCK)
    with pytest.warns(UserWarning, match=r"has no ledger of 'study': nothing has run there"):
        cells = benchfleet.load(user.folder / "study.yaml").cells
    assert set(cells["state"]) == {"pending"}
    assert "has no ledger of 'study'" in user.run("report", "study.yaml").stderr


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.filterwarnings("ignore:.*has no ledger")
def test_a_frame_without_rows_has_its_columns(user: User, library: Any) -> None:
    user.write(MOCK)
    results = benchfleet.load(user.folder / "study.yaml", frames=library)
    assert len(results.samples) == len(results.comparisons) == 0
    assert {"cell", "label", "answer"} <= {*results.samples.columns}
    assert {"label", "first_model", "difference", "low"} <= {*results.comparisons.columns}
    assert {"cell", "attempt", "began", "failure"} <= {*results.attempts.columns}
    assert {"suite", "mean", "difference", "low"} <= {*results.suites.columns}


def test_a_chart_is_one_of_altair(finished: User) -> None:
    results = benchfleet.load(finished.folder / "study.yaml")
    assert "datasets" in results.chart("scores").to_dict()
    with pytest.raises(BenchfleetError, match="no chart 'failures' yet: no cell failed"):
        results.chart("failures")
    with pytest.raises(BenchfleetError, match="did you mean 'forest'"):
        results.chart("forrest")


def test_charts_of_several_models_are_one_of_altair(user: User) -> None:
    user.write(MOCK.replace("[mock_benchmark]", "[mock_benchmark, _hostile: {samples: 4}]"))
    user.run("run", "study.yaml")
    chart = benchfleet.load(user.folder / "study.yaml").chart("scores")
    assert len(chart.to_dict()["datasets"]) == 2
    chart.save(user.folder / "scores.svg")
    drawn = (user.folder / "scores.svg").read_text()
    assert all(name in drawn for name in ("m1", "m2", "dense", "_hostile"))


def test_a_part_is_loaded_alone(finished: User) -> None:
    results = benchfleet.load(finished.folder / "study.yaml", only="models=m1")
    assert set(results.cells["model"]) == {"m1"}


def test_what_cannot_be_loaded_is_named(
    finished: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    with pytest.raises(BenchfleetError, match="has no ledger; give the campaign file"):
        benchfleet.load(tmp_path)
    with pytest.raises(UnknownName, match=r"no data frames of 'x'; there are pandas, polars$"):
        benchfleet.load(finished.folder / "study.yaml", frames="x")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises((MissingExtra, ValueError), match="polars"):
        benchfleet.load(finished.folder / "study.yaml", frames="polars")
