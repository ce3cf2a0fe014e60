"""Suites: one score over several benchmarks, its error, and what is not compared."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import polars
import pytest

from benchfleet.domain.averages import standard_error
from benchfleet.domain.suite import Part, Suite, SuiteMean
from benchfleet.reports import html, latex, markdown, verdicts
from benchfleet.reports.exports import to_csv, to_json, to_parquet
from benchfleet.reports.tables import Comparison, compare
from benchfleet.results.read import SampleScores

from .conftest import Study, present

FIRST, SECOND = [1.0] * 60 + [0.0] * 40, [1.0] * 10 + [0.0] * 10
BETTER = [1.0] * 90 + [0.0] * 10


def suite(mean: SuiteMean = "macro", *, weights: tuple[float, float] = (1.0, 1.0)) -> Suite:
    names = ("recall_128", "recall_512")
    parts = [
        Part(name=name, workloads=(name,), weight=weight)
        for name, weight in zip(names, weights, strict=True)
    ]
    return Suite(name="core", mean=mean, parts=tuple(parts))


def compared(study: Study, *suites: Suite) -> Comparison:
    return compare(
        study.records,
        study.cells,
        lambda record: SampleScores(scores=study.samples[record.fingerprint]),
        suites=suites,
    )


@pytest.fixture
def two(study: Study) -> Study:
    """A part with 100 samples and one with 20, by two configs."""
    study.done("dense", FIRST, subset="128")
    study.done("dense", SECOND, subset="512")
    study.done("top_k", BETTER, subset="128")
    study.done("top_k", SECOND, subset="512")
    return study


@pytest.mark.parametrize(
    ("chosen", "weights"),
    [
        (suite("macro"), (1 / 2, 1 / 2)),
        (suite("micro"), (100 / 120, 20 / 120)),
        (suite("weights", weights=(1.0, 3.0)), (1 / 4, 3 / 4)),
    ],
)
def test_the_error_is_propagated_from_the_parts(
    two: Study, chosen: Suite, weights: tuple[float, float]
) -> None:
    score = compared(two, chosen).suites[0]
    assert score.mean == pytest.approx(weights[0] * 0.6 + weights[1] * 0.5)
    first, second = present(standard_error(FIRST)), present(standard_error(SECOND))
    assert score.stderr == pytest.approx(math.hypot(weights[0] * first, weights[1] * second))
    assert (score.samples, score.parts_done, score.parts) == (120, 2, 2)


def test_the_difference_is_paired_within_each_part(two: Study) -> None:
    dense, top_k = compared(two, suite()).suites
    assert dense.difference is None
    difference = present(top_k.difference)
    assert difference.difference == pytest.approx(0.15)
    changed = [1.0] * 30 + [0.0] * 70  # the second part does not differ at all
    assert 2 * present(difference.stderr) == pytest.approx(standard_error(changed))
    assert difference.sure


def test_the_first_sentences_say_what_leads_a_suite(two: Study) -> None:
    text = markdown.render(compared(two, suite()), title="study")
    assert "- suite core: top_k is best, 0.700 ± 0.059; significantly higher than dense" in text
    assert "| tiny | top_k | 0.700 ± 0.059 | +0.150 ± 0.023 ▲ |" in text
    page = html.render(compared(two, suite()), title="study")
    assert '<section id="suites">' in page
    assert html.render(compared(two), title="study").count("suites") == 0


def test_a_suite_without_all_its_parts_has_no_score(two: Study) -> None:
    two.done("window", FIRST, subset="128")
    two.failed("window", subset="512")
    comparison = compared(two, suite())
    window = comparison.suites[-1]
    assert (window.mean, window.remark, window.parts_done) == (None, "1 of 2 parts", 1)
    (best,) = comparison.best_suites
    assert best.without_result == ("window",)
    assert "1 of 2 parts" in markdown.render(comparison, title="study")


def test_a_part_needs_all_its_subsets_even_if_only_some_are_selected(two: Study) -> None:
    whole = Part(name="recall", workloads=("recall_128", "recall_512", "recall_1024"))
    (score, _) = compared(two, Suite(name="core", parts=(whole,))).suites
    assert (score.mean, score.remark) == (None, "0 of 1 parts")


def test_several_versions_of_a_part_are_never_one_score(two: Study) -> None:
    two.done("dense", SECOND, subset="512", params={"hard": True})
    dense, top_k = compared(two, suite()).suites
    assert dense.remark == "several versions of recall_512"
    assert top_k.difference is None


def test_contenders_with_different_versions_are_not_compared(study: Study) -> None:
    for config, params in (("dense", {}), ("top_k", {"hard": True})):
        study.done(config, FIRST, subset="128")
        study.done(config, SECOND, subset="512", params=params)
    comparison = compared(study, suite())
    assert present(comparison.suites[1].difference).difference is None
    assert comparison.best_suites[0].not_compared_with == ("top_k",)
    assert verdicts.sentences(comparison, str)[0] == (
        "suite core: dense and top_k have the same mean, 0.550 ± 0.062. Not compared with top_k: "
        "a part has fewer than two shared values, or another version."
    )


def test_scales_are_mixed_by_weights_alone(two: Study) -> None:
    for cell in two.cells:
        if cell.workload.subset == "512":
            scores = two.samples[cell.fingerprint]
            two.samples[cell.fingerprint] = {key: 100 * value for key, value in scores.items()}
            record = next(r for r in two.records if r.fingerprint == cell.fingerprint)
            metrics: Any = present(record.outcome).metrics
            metrics["overall_score"] *= 100
    macro = compared(two, suite()).suites[0]
    assert macro.mean is None
    assert macro.remark == "recall_512 and recall_128 have different scales; give weights"
    assert compared(two, suite("weights", weights=(100.0, 1.0))).suites[0].mean is not None


def test_an_equal_part_leaves_the_error_of_the_others(study: Study) -> None:
    for config, values in (("dense", FIRST), ("top_k", FIRST)):
        study.done(config, values, subset="128")
        study.done(config, SECOND, subset="512")
    difference = present(compared(study, suite()).suites[1].difference)
    assert (difference.difference, difference.p_value) == (0.0, 1.0)


def test_a_suite_is_values_of_json(two: Study) -> None:
    values = json.loads(to_json(compared(two, suite()), title="study"))
    assert values["suites"][1]["difference"]["n"] == 120
    assert values["best_suites"][0]["benchmark"] == "core"


def test_suites_are_rows_of_the_csv_and_parquet_and_columns_of_the_latex(two: Study) -> None:
    comparison = compared(two, suite())
    rows = [*csv.DictReader(io.StringIO(to_csv(comparison)))]
    assert [row["kind"] for row in rows] == ["benchmark"] * 4 + ["suite"] * 2
    top_k = rows[-1]
    assert (top_k["config"], top_k["benchmark"], top_k["samples"]) == ("top_k", "core", "120")
    assert float(top_k["difference"]) == pytest.approx(0.15)
    assert (top_k["sure"], top_k["attempts"]) == ("true", "")
    table = polars.read_parquet(io.BytesIO(to_parquet(comparison)))
    assert table["kind"].to_list() == [row["kind"] for row in rows]
    assert table["sure"].to_list()[-2:] == [None, True]
    text = latex.render(comparison, title="study")
    assert r"config & core (suite) & recall\_128" in text
    assert r"top\_k & {\boldmath$0.700 \pm 0.059$$^{+}$} &" in text


def test_a_suite_without_all_parts_says_so_in_the_latex(study: Study) -> None:
    study.done("dense", FIRST, subset="128")
    text = latex.render(compared(study, suite()), title="study")
    assert "dense & 1 of 2 parts &" in text


def test_latex_shows_the_highest_mean_of_each_model_in_bold(study: Study) -> None:
    for model, (dense, top_k) in {"a": (6, 7), "b": (3, 2)}.items():
        for subset in ("128", "512"):
            for config, right in (("dense", dense), ("top_k", top_k)):
                values = [1.0] * right + [0.0] * (10 - right)
                study.done(config, values, subset=subset, model=model)
    study.failed("top_k", subset="512", model="c")
    study.done("top_k", FIRST, subset="128", model="c")
    text = latex.render(compared(study, suite()), title="t")
    rows = [line for line in text.splitlines() if line.startswith(("dense &", "top\\_k &"))]
    assert [row.split(" & ")[1] for row in rows] == [
        r"$0.600 \pm 0.115$",
        r"{\boldmath$0.700 \pm 0.108$}",
        r"{\boldmath$0.300 \pm 0.108$}",
        r"$0.200 \pm 0.094$",
        "1 of 2 parts",
    ]
