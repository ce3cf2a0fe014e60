"""The charts beside the heat maps, drawn as Vega does it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from benchfleet.domain.usage import UsageTotal
from benchfleet.reports.charts import base, collection, images
from benchfleet.reports.charts.base import Chart
from benchfleet.reports.charts.collection import KINDS, REASONS, charts, charts_of_kind
from benchfleet.reports.charts.forest import forest
from benchfleet.reports.charts.images import image
from benchfleet.reports.charts.lengths import lengths
from benchfleet.reports.charts.narrow import narrowed
from benchfleet.reports.charts.timeline import Span, Spans, timeline
from drawn_charts import HOSTILE, marks, only, svg, texts

from .conftest import Study

pytestmark = pytest.mark.slow  # altair takes long over each chart


def test_a_forest_plot_draws_each_difference_once_in_its_own_panel(demo: Study) -> None:
    chart = only(demo, "forest")
    assert marks(chart, "point") == 12  # four configs on three benchmarks
    output = texts(chart)
    assert {"recall_128", "recall_512", "window_32", "top_k"} <= set(output)
    assert "dense" not in output


def test_a_forest_plot_of_many_benchmarks_is_no_wider_than_a_page(study: Study) -> None:
    for config, right in (("dense", 40), ("a", 30)):
        for length in range(25):
            study.done(config, [1.0] * right + [0.0] * (50 - right), subset=str(128 + length))
    svg = image([only(study, "forest")], "svg").decode()
    (width, *_) = re.findall(r'width="([\d.]+)"', svg)
    assert float(width) < 1400


def test_a_difference_that_is_not_significant_has_a_mark_of_its_own(demo: Study) -> None:
    marked = {(row["row"], row["mark"]) for row in only(demo, "forest").rows}
    assert ("top_k", "not significant") in marked
    assert ("window_32", "lower") in marked


def test_the_front_has_what_nothing_else_beats(study: Study) -> None:
    for config, score, density in (
        ("dense", 40, 1.0),
        ("a", 40, 0.2),
        ("b", 10, 0.1),
        ("c", 9, 0.3),
    ):
        values = [1.0] * score + [0.0] * (50 - score)
        study.done(config, values, metrics={"density": density})
    (chart,) = (one for one in charts(study.compared()) if one.kind == "pareto-density")
    front = {row["name"] for row in chart.rows if row["front"] == "on the front"}
    assert front == {"a", "b"}
    assert marks(chart, "point") == 4


def test_a_price_that_all_share_makes_no_chart(demo: Study) -> None:
    assert not charts_of_kind("pareto", demo.compared())  # the density is 0.25 everywhere


def test_scores_are_drawn_against_the_lengths_that_subsets_name(demo: Study) -> None:
    chart = only(demo, "length")
    assert {row["length"] for row in chart.rows} == {128, 512, 1024}
    assert marks(chart, "point") == 15
    assert {"128", "512", "1024"} <= set(texts(chart))


def test_scores_are_drawn_against_training_steps_a_line_for_each_series_and_config(
    study: Study,
) -> None:
    for model in ("run", HOSTILE):
        for step in (1000, 2000, 3000):
            for config in ("dense", "top_k"):
                values = [float(n * 100 < step) for n in range(50)]
                study.done(config, values, model=model, step=step)
    study.done("dense", [1.0, 0.0], model="other")  # no checkpoint
    chart = only(study, "steps")
    assert {row["step"] for row in chart.rows} == {1000, 2000, 3000}
    assert all(row["low"] < row["score"] < row["high"] for row in chart.rows)
    assert len({row["name"] for row in chart.rows}) == 4
    assert {"run / dense", "run / top_k", "training step"} <= set(texts(chart))
    assert marks(chart, "point") == 12


def test_one_checkpoint_makes_no_chart(study: Study) -> None:
    study.done("dense", [1.0, 0.0], model="run", step=1000)
    assert not charts_of_kind("steps", study.compared())


def test_a_config_with_a_line_gets_a_colour_before_one_of_a_single_length(study: Study) -> None:
    for number in range(8):
        study.done(f"lone{number}", [1.0] * 20, subset="1k")
    for subset in ("1k", "2k"):
        study.done("line", [1.0, 0.0] * 10, subset=subset)
    assert "line" in {row["series"] for row in only(study, "length").rows}


def test_lines_of_the_others_lie_below_those_with_a_colour(study: Study) -> None:
    for subset in ("1k", "2k"):
        for number in range(9):
            study.done(f"c{number}", [1.0] * number + [0.0] * (60 - number), subset=subset)
    strokes = re.findall(
        r'aria-roledescription="line mark"[^>]*stroke="([^"]*)"', svg(only(study, "length"))
    )
    assert strokes[0] == base.OTHERS
    assert len(strokes) == 9
    assert base.OTHERS not in strokes[1:]


def as_narrow(chart: Chart) -> Chart:
    spec = narrowed(chart)
    assert spec is not None
    return replace(chart, spec=spec)


def test_a_narrow_forest_plot_fits_a_phone_and_shows_long_names_whole(study: Study) -> None:
    end = "_of_a_config_whose_end_distinguishes_it_from_others_"
    benchmark = "a_benchmark_of_a_long_name_in_many_parts_whose_end_says_which"
    for config, right in (("dense", 40), (f"top{end}4096", 30), (f"top{end}2048", 20)):
        for subset in ("512", benchmark):
            study.done(config, [1.0] * right + [0.0] * (50 - right), subset=subset)
    chart = only(study, "forest")
    narrow = as_narrow(chart)
    (width, *_) = re.findall(r'width="([\d.]+)"', svg(narrow))
    assert float(width) <= 358  # of a page of 390 px, less its margins
    output = re.sub("<[^>]*>", "", svg(narrow))
    for name in (f"top{end}4096", f"top{end}2048", f"recall_{benchmark}"):
        assert name in output
    assert marks(narrow, "point") == marks(chart, "point") == 4


def test_every_narrow_chart_but_the_time_line_fits_a_phone(demo: Study) -> None:
    demo.failed("broken", stage="benchmark")
    bar = Span(lane="host", cell="c", attempt=1, begin=0.0, end=1.0, state="success")
    made = {chart.kind: chart for chart in charts(demo.compared(), Spans([bar]))}
    assert narrowed(made.pop("timeline")) is None
    assert {"forest", "length", "failures"} <= {*made}
    for chart in made.values():
        (width, *_) = re.findall(r'width="([\d.]+)"', svg(as_narrow(chart)))
        assert float(width) <= 358


def test_the_axis_of_equal_scores_shows_the_score(study: Study) -> None:
    for config, density in (("dense", 1.0), ("a", 0.5)):
        study.done(config, [1.0] * 9 + [0.0], metrics={"density": density})
    assert "0.9" in texts(only(study, "pareto"))


def test_money_of_two_currencies_is_not_drawn_on_one_axis(study: Study) -> None:
    for config, right in (("dense", 40), ("a", 30)):
        study.done(config, [1.0] * right + [0.0] * (50 - right))
    comparison = study.compared()

    def priced(*currencies: str) -> list[Chart]:
        bills = [UsageTotal(costs={name: 1.0 + n}) for n, name in enumerate(currencies)]
        entries = [
            replace(entry, spent=replace(entry.spent, bill=bill))
            for entry, bill in zip(comparison.entries, bills, strict=True)
        ]
        return charts_of_kind("pareto", replace(comparison, entries=tuple(entries)))

    assert not priced("EUR", "USD")
    (chart,) = priced("EUR", "EUR")
    assert "cost EUR" in texts(chart)


def test_each_chart_of_an_image_has_its_own_legend_of_dashes() -> None:
    one = Chart(kind="k", title="t", about="", spec={"$schema": "s"}, rows=())
    assert images.stacked([one])["resolve"]["scale"]["strokeDash"] == "independent"


def test_subsets_that_are_no_lengths_make_no_chart(study: Study) -> None:
    study.done("dense", [1.0, 0.0], subset="qasper")
    study.done("dense", [1.0, 0.0], subset="hotpotqa")
    assert not charts_of_kind("length", study.compared())


def test_of_sixty_configs_eight_have_a_colour_and_all_are_drawn(study: Study) -> None:
    for subset in ("1k", "2k"):
        for number in range(60):
            study.done(f"c{number}", [1.0] * number + [0.0] * (60 - number), subset=subset)
    chart = only(study, "length")
    assert marks(chart, "point") == 120
    coloured = {row["series"] for row in chart.rows}
    assert coloured == {f"c{number}" for number in range(52, 60)} | {"others"}
    assert chart.about.endswith("Grey are others: 52 lines.")


def test_failures_are_counted_by_stage_and_kind(study: Study) -> None:
    for number in range(3):
        study.failed("dense", subset=str(number), message=f"at {number}")
    study.failed("window", stage="benchmark", kind="timeout")
    output = texts(only(study, "failures"))
    assert {"load: oom", "3", "benchmark: timeout", "1"} <= set(output)


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_charts_with_data_of_their_own_share_an_image(demo: Study, form: str) -> None:
    comparison = demo.compared()
    two = [*charts_of_kind("scores", comparison), *charts_of_kind("forest", comparison)]
    assert len(image(two, form)) > len(image(two[:1], form)) > 1000


def test_every_kind_can_be_asked_for(demo: Study) -> None:
    for kind in KINDS:
        charts_of_kind(kind, demo.compared())
    with pytest.raises(Exception, match="no chart 'forrest'; did you mean 'forest'"):
        charts_of_kind("forrest", demo.compared())


def test_only_the_charts_of_the_kind_are_made(demo: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a moment, and the dashboard asks kind by kind."""
    comparison = demo.compared()
    wanted = charts_of_kind("forest", comparison)
    for name in ("heat_maps", "lengths", "pareto", "spent"):
        monkeypatch.delattr(collection, name)
    assert charts_of_kind("forest", comparison) == wanted
    with pytest.raises(NameError, match="heat_maps"):
        charts_of_kind("scores", comparison)


def test_legends_have_what_occurs(study: Study) -> None:
    span = Span(lane="a", cell="m/dense/recall", attempt=1, begin=0, end=9, state="success")
    chart = timeline(Spans([span]))
    assert chart is not None
    assert "given back" not in json.dumps(chart.spec)
    study.done("dense", [1.0, 0.0, 1.0], subset="64")
    study.done("same", [1.0, 0.0, 1.0], subset="64")
    chart = forest(study.compared())
    assert chart is not None
    assert "higher" not in json.dumps(chart.spec)


def test_equal_lines_are_all_seen(study: Study) -> None:
    """Of lines that lie on each other the later is thinner."""
    for config in ("dense", "sink", "window"):
        for subset in ("128", "512"):
            study.done(config, [1.0, 0.0, 1.0], subset=subset)
    chart = lengths(study.compared())
    assert chart is not None
    widths = [row["width"] for row in chart.rows if row["length"] == 128]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_says_why_there_is_nothing_to_draw(kind: str, study: Study) -> None:
    assert charts_of_kind(kind, study.compared()) == []
    assert REASONS[kind]
