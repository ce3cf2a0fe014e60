"""Names of models, configs and benchmarks in charts: long, hostile, and from right to left."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchfleet.domain.usage import UsageTotal
from benchfleet.reports.charts.base import Chart
from benchfleet.reports.charts.collection import charts, charts_of_kind
from drawn_charts import HOSTILE, only, svg, texts

from .conftest import Study

pytestmark = pytest.mark.slow  # altair takes long over each chart


def test_a_forest_plot_shows_long_names_whole(study: Study) -> None:
    name = "a_config_with_a_very_long_name_whose_end_tells_it_apart"
    for config, right in (("dense", 40), (name, 30)):
        study.done(config, [1.0] * right + [0.0] * (50 - right))
    assert name in texts(only(study, "forest"))


def test_hostile_names_are_text_in_every_chart(study: Study) -> None:
    for subset in ("128", "512"):
        study.done(
            "dense", [0.5, 0.7, 0.6] * 4, model=HOSTILE, subset=subset, metrics={"density": 1}
        )
        study.done(
            HOSTILE, [0.1, 0.9, 0.2] * 4, model=HOSTILE, subset=subset, metrics={"density": 0.1}
        )
    study.failed("broken", model=HOSTILE, stage=HOSTILE)
    drawn = list(charts(study.compared()))
    assert {chart.kind for chart in drawn} == {"forest", "pareto-density", "length", "failures"}
    for chart in drawn:
        assert "<b>" not in svg(chart)


HUB = "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B-Instruct-{}-INT4-g128"


@pytest.fixture
def hub(study: Study) -> Study:
    """Two models with long names × three configs, on lengths and on two benchmarks with long
    names."""
    for model in (HUB.format("AWQ"), HUB.format("GPTQ")):
        for config, right in (("dense", 40), ("w1", 30), ("w2", 20)):
            for subset in ("512", "1024", f"{'long_' * 15}a", f"{'long_' * 15}b"):
                values = [1.0] * right + [0.0] * (50 - right)
                metrics = {"density": right / 40}
                study.done(config, values, model=model, subset=subset, metrics=metrics)
    return study


def timed(study: Study) -> Chart:
    """The chart of slot time, an hour for each entry."""
    comparison = study.compared()
    entries = [
        replace(entry, spent=replace(entry.spent, bill=UsageTotal(seconds=3600.0)))
        for entry in comparison.entries
    ]
    (chart,) = charts_of_kind("time", replace(comparison, entries=tuple(entries)))
    return chart


@pytest.mark.parametrize("kind", ["forest", "pareto", "length"])
def test_labels_of_long_names_end_with_the_config(hub: Study, kind: str) -> None:
    """As drawn: Vega cuts the end of a label that is too long."""
    output = {text for text in texts(only(hub, kind)) if text.startswith("deepseek-ai/")}
    configs = {"dense", "w1", "w2"} - ({"dense"} if kind == "forest" else set())
    ends = {f"{method}-INT4-g128 × {config}" for method in ("AWQ", "GPTQ") for config in configs}
    assert len(output) == len(ends)
    assert all(any(text.endswith(end) for text in output) for end in ends)


def test_bars_of_long_names_have_distinct_labels(hub: Study) -> None:
    output = [text for text in texts(timed(hub)) if "…" in text]
    assert len({*output}) == len(output) == 24
    assert sum(text.endswith("× w1 / recall_512") for text in output) == 2


@pytest.mark.parametrize("kind", ["forest", "pareto"])
def test_headers_of_panels_are_distinct(hub: Study, kind: str) -> None:
    headers = {text for text in texts(only(hub, kind)) if text.startswith("recall_")}
    assert len(headers) == 4
    assert any(text.endswith("long_a") for text in headers)


def test_the_pointer_shows_whole_names(hub: Study) -> None:
    forest_rows, bars = only(hub, "forest").rows, timed(hub).rows
    whole = f"{HUB.format('AWQ')} × w1"
    assert whole in {row["name"] for row in forest_rows}
    assert f"{whole} / recall_512" in {row["name"] for row in bars}
    assert f"recall_{'long_' * 15}a" in {row["benchmark"] for row in forest_rows}


def test_intervals_stay_in_their_panel(hub: Study) -> None:
    chart = only(hub, "forest")
    interval = r'<line aria-label="low[^>]*translate\(([\d.-]+),[^>]*x2="([\d.-]+)"'
    reach = [(float(x), float(x) + float(x2)) for x, x2 in re.findall(interval, svg(chart))]
    assert len(reach) == 16
    assert all(min(ends) >= 4 and max(ends) <= 186 for ends in reach)


def test_a_name_from_right_to_left_turns_no_other_around(study: Study) -> None:
    for config in ("dense", "50%#"):
        study.done(config, [1.0, 0.0, 1.0], model="מודל", subset="מבחן")
        study.done(config, [0.0, 0.0, 1.0], model="tiny", subset="מבחן")
    chart = only(study, "forest")
    assert {row["row"] for row in chart.rows} == {"\u2068מודל\u2069 × 50%#", "tiny × 50%#"}
    assert {row["panel"] for row in chart.rows} == {"\u2068recall_מבחן\u2069"}
    bars = [row["row"] for row in timed(study).rows]
    assert "\u2068מודל\u2069 × 50%# / \u2068recall_מבחן\u2069" in bars
