"""What the heat maps show of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchfleet.reports.charts import heat_map
from benchfleet.reports.figures import Figure, figures
from benchfleet.reports.tables import Comparison

from .conftest import Study


def only(comparison: Comparison) -> Figure:
    (figure,) = figures(comparison)
    return figure


def cell(figure: Figure, row: str, column: str) -> Mapping[str, Any]:
    (found,) = [e for e in figure.entries if (e["row"], e["column"]) == (row, column)]
    return found


def test_several_models_have_a_figure_of_model_by_config_for_each_benchmark(study: Study) -> None:
    for model in ("a", "b"):
        for subset in ("128", "512"):
            study.done("dense", [1, 0], model=model, subset=subset)
            study.done("window", [0, 0], model=model, subset=subset)
    found = list(figures(study.compared()))
    assert [figure.title for figure in found] == ["recall_128", "recall_512"]
    for figure in found:
        assert (figure.kind, figure.rows) == ("model", ("a", "b"))
        assert (figure.columns, figure.others) == (("dense", "window"), ("window",))
        assert len(figure.entries) == 4


def test_a_lone_model_has_one_figure_of_its_benchmarks_on_one_scale(demo: Study) -> None:
    figure = only(demo.compared())
    assert (figure.kind, figure.rows) == ("benchmark", ("recall_128", "recall_512", "recall_1024"))
    assert (figure.lowest, figure.highest) == ("0.150", "1.000")


def test_benchmarks_on_different_scales_do_not_share_colours(study: Study) -> None:
    study.done("dense", [0.5, 0.7], subset="share")
    study.done("dense", [50, 70], subset="percent")
    found = list(figures(study.compared()))
    assert [figure.rows for figure in found] == [("recall_share",), ("recall_percent",)]


def test_a_cell_shows_mean_change_and_whether_it_is_sure(demo: Study) -> None:
    figure = only(demo.compared())
    beaten = cell(figure, "recall_512", "window_32")
    assert beaten["mean"] == pytest.approx(0.15)
    assert beaten["change"] == pytest.approx(-0.85)
    assert (beaten["mean_text"], beaten["change_text"]) == ("0.150", "−0.850")
    assert beaten["sure"] is True
    assert beaten["score"].startswith("0.150 ± ")
    alike = cell(figure, "recall_512", "top_k")
    assert (alike["change_text"], alike["sure"]) == ("−0.010≈", False)


def test_a_cell_without_a_score_shows_the_worst_of_its_states(study: Study) -> None:
    study.done("dense", [1, 0])
    study.record(study.cell("window", repeat=0), "running")
    study.failed("window", repeat=1)
    found = cell(only(study.compared()), "recall_512", "window")
    assert (found["mean_text"], found["change_text"]) == ("failed", "failed")
    assert "mean" not in found
    assert "change" not in found


def test_a_score_that_lacks_repeats_is_marked(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0)
    study.cell("dense", repeat=1)
    found = cell(only(study.compared()), "recall_512", "dense")
    assert found["mean_text"] == "0.500*"
    assert found["score"] == "0.500 ± 0.500 (1 of 2: 1 pending)"


def test_without_a_baseline_result_there_is_no_change_to_show(study: Study) -> None:
    study.failed("dense")
    study.done("window", [1, 0])
    found = cell(only(study.compared()), "recall_512", "window")
    assert found["change_text"] == "–"
    assert "change" not in found


def test_what_has_no_score_yet_has_no_figure(study: Study) -> None:
    study.cell("dense", subset="128")
    study.done("dense", [1, 0], subset="512", model="a")
    assert [figure.title for figure in figures(study.compared())] == ["recall_512"]


def test_models_and_configs_that_a_benchmark_leaves_out_take_no_room(study: Study) -> None:
    study.done("dense", [1, 0], model="a", subset="128")
    study.done("window", [1, 0], model="a", subset="128")
    study.done("dense", [1, 0], model="b", subset="512")
    first, second = figures(study.compared())
    assert (first.rows, first.columns) == (("a",), ("dense", "window"))
    assert (second.rows, second.columns) == (("b",), ("dense",))


def test_names_that_look_alike_stay_apart(study: Study) -> None:
    study.done("dense", [1, 0])
    study.done("a b", [1, 0])
    study.done("a  b", [0, 0])
    assert only(study.compared()).columns == ("dense", "a b", "a b (2)")


def test_long_names_have_short_labels_that_differ_and_whole_names_beside_them(study: Study) -> None:
    names = [
        f"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B-{method}-g128" for method in ("AWQ", "GPTQ")
    ]
    for model in names:
        study.done("dense", [1, 0], model=model)
    figure = only(study.compared())
    assert figure.rows == ("deepseek-ai/Deep…en-32B-AWQ-g128", "deepseek-ai/Deep…n-32B-GPTQ-g128")
    assert [entry["row_name"] for entry in figure.entries] == names
    assert "column_name" not in figure.entries[0]
    tooltip = heat_map.scores(figure)["encoding"]["tooltip"]
    assert [one["field"] for one in tooltip[:2]] == ["row_name", "column"]
