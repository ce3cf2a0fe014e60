"""The heat maps, compiled and drawn as Vega does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import vl_convert

from benchfleet.reports.charts import base, heat_map
from benchfleet.reports.figures import Figure, figures
from benchfleet.reports.tables import Comparison

from .conftest import Study

pytestmark = pytest.mark.slow  # altair takes long over each chart

HOSTILE = '"] || 1 + datum.x </text><b>`${y}`'


def texts(figure: Figure, chart: Mapping[str, Any] | None) -> list[str]:
    """What the drawn chart says, in the order of drawing."""
    assert chart is not None
    svg = vl_convert.vegalite_to_svg({**chart, "datasets": {base.DATA: list(figure.entries)}})
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)


def fills(figure: Figure, chart: Mapping[str, Any] | None) -> list[str]:
    """The colours of the drawn cells, those drawn over others too."""
    assert chart is not None
    svg = vl_convert.vegalite_to_svg({**chart, "datasets": {base.DATA: list(figure.entries)}})
    return re.findall(r'<path aria-label=[^>]*fill="([^"]*)"', svg)


def only(comparison: Comparison) -> Figure:
    (figure,) = figures(comparison)
    return figure


def test_the_scores_of_every_config_are_drawn(demo: Study) -> None:
    figure = only(demo.compared())
    output = texts(figure, heat_map.scores(figure))
    assert output.count("1.000") == 3
    assert output.count("0.150") == 3
    assert {"dense", "window_32", "top_k", "recall_128", "recall_1024"} <= set(output)


def test_the_differences_leave_the_baseline_out(demo: Study) -> None:
    figure = only(demo.compared())
    output = texts(figure, heat_map.differences(figure))
    assert output.count("−0.850") == 3
    assert output.count("−0.010≈") == 3
    assert "dense" not in output


def test_colours_of_differences_are_centred_at_zero(study: Study) -> None:
    study.done("dense", [0.5] * 8 + [0.6] * 8)
    study.done("worse", [0.1] * 8 + [0.2] * 8)
    study.done("alike", [0.5] * 8 + [0.6] * 8)
    study.done("better", [0.7] * 8 + [0.8] * 8)
    figure = only(study.compared())
    chart = heat_map.differences(figure)
    assert chart is not None
    (colour,) = [
        layer["encoding"]["color"]["scale"]
        for layer in chart["layer"]
        if "scale" in layer["encoding"].get("color", {})
    ]
    assert colour["domain"] == pytest.approx([-0.4, 0, 0.4])
    assert colour["range"] == [base.LOWER, base.SAME, base.HIGHER]
    drawn = fills(figure, chart)
    assert drawn[0] == "rgb(179, 88, 6)"  # LOWER, at its full
    assert drawn[1] == "rgb(247, 247, 247)"  # SAME


def test_an_unsure_difference_is_veiled_and_a_sure_one_is_not(demo: Study) -> None:
    figure = only(demo.compared())
    chart = heat_map.differences(figure)
    assert fills(figure, chart).count("white") == 3  # top_k, at three lengths


def test_sixty_configs_are_rows(study: Study) -> None:
    for model in ("a", "b"):
        for number in range(60):
            study.done(f"config_{number}", [1.0, 0.0, number % 2], model=model)
    figure = only(study.compared())
    for chart in (heat_map.scores(figure), heat_map.differences(figure)):
        assert chart is not None
        svg = vl_convert.vegalite_to_svg({**chart, "datasets": {base.DATA: list(figure.entries)}})
        (width, *_) = re.findall(r'width="([\d.]+)"', svg)
        assert float(width) < 400
    assert fills(figure, heat_map.scores(figure))


def test_states_are_drawn_where_there_is_no_score(study: Study) -> None:
    study.done("dense", [1, 0])
    study.failed("window")
    study.done("sink", [1, 1])
    figure = only(study.compared())
    assert "failed" in texts(figure, heat_map.scores(figure))
    assert "failed" in texts(figure, heat_map.differences(figure))


def test_the_baselines_own_state_is_no_difference(study: Study) -> None:
    study.done("dense", [1, 0], subset="128")
    study.done("window", [1, 1], subset="128")
    study.failed("dense", subset="512")
    study.done("window", [1, 1], subset="512")
    figure = only(study.compared())
    assert "failed" in texts(figure, heat_map.scores(figure))
    assert "failed" not in texts(figure, heat_map.differences(figure))
    assert fills(figure, heat_map.differences(figure)).count("#888888") == 1  # window, at 512


def test_where_nothing_is_compared_there_is_no_second_map(study: Study) -> None:
    study.done("dense", [1, 0])
    figure = only(study.compared())
    assert set(texts(figure, heat_map.scores(figure))) == {"dense", "recall_512", "0.500"}
    assert heat_map.differences(figure) is None


def test_hostile_names_are_drawn_and_never_in_an_expression(study: Study) -> None:
    study.done("dense", [1, 0])
    study.done(HOSTILE, [1, 1])
    figure = only(study.compared())
    for chart in (heat_map.scores(figure), heat_map.differences(figure)):
        assert any("datum.x &lt;/" in output for output in texts(figure, chart))
        assert chart is not None
        for layer in chart["layer"]:
            assert HOSTILE not in str(layer["transform"])
            assert HOSTILE not in str(layer["encoding"].get("color"))
