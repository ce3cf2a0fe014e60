"""Metrics in lm-eval's layout: their order, their direction, and their scale."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.compat.imports.lm_eval import lm_eval_files, read_lm_eval
from benchfleet.compat.imports.result import ForeignResult
from benchfleet.compat.imports.seal import verdict_of
from benchfleet.exporters.base import ExportedResult
from benchfleet.exporters.lm_eval import LmEvalExporter
from benchfleet.testing import sample_cell
from benchfleet.testing.exporter_contract import sample_results


def exported(
    folder: Path, benchmark: str, subset: str | None, metric: str, **fields: Any
) -> tuple[ExportedResult, dict[str, Any]]:
    """A result of two samples with this headline, and its file of results."""
    one, _ = sample_results(folder / "results")
    cell = sample_cell(benchmark=benchmark, subset=subset)
    result = replace(one, cell=cell, **fields, summary={**one.summary, "metric": metric})
    LmEvalExporter(str(folder / "out"), "study").put([result])
    (file,) = lm_eval_files(folder / "out")
    return result, json.loads(file.read_text())


def read_back(folder: Path) -> ForeignResult:
    (file,) = lm_eval_files(folder / "out")
    (one,) = read_lm_eval(file)
    assert isinstance(one, ForeignResult)
    return one


@pytest.mark.parametrize(
    ("tasks", "metric", "score", "better"),
    [
        ({"a": 0.4, "b": 0.5}, "b", 0.5, {"b": True}),
        ({"a": 9.0, "b": 12.0}, "b", -12.0, {"b": False}),
        ({"a": 0.4, "b": 0.0}, "b", 0.0, {}),
        ({"a": 0.4}, "score", 0.5, {"score": True}),
    ],
)
def test_only_a_direction_that_the_result_tells_is_written(
    tasks: Mapping[str, float], metric: str, score: float, better: Any, tmp_path: Path
) -> None:
    result, content = exported(tmp_path, "lm_eval", "t", metric, tasks=tasks, score=score)
    assert content["higher_is_better"]["t"] == better
    assert content["results"]["t"][f"{metric},none"] == abs(score)
    verdict = verdict_of(result.cell, read_back(tmp_path))
    assert (verdict.score["summary"]["metric"], verdict.score["overall"]) == (metric, score)
    assert verdict.score["per_sample"] == [one["score"] for one in result.samples()]


def test_a_score_of_0_to_100_is_written_on_the_scale_of_lm_eval(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"tasks": {"qa_f1_score": 50.0}, "score": 50.0, "scale": 100.0}
    result, content = exported(tmp_path, "longbench", "qasper", "qa_f1_score", **fields)
    values = content["results"]["longbench_qasper"]
    assert values["qa_f1_score,none"] == 0.5
    assert values["qa_f1_score_stderr,none"] == 0.00125
    verdict = verdict_of(result.cell, read_back(tmp_path))
    assert (verdict.score["overall"], verdict.score["tasks"]) == (50.0, {"qa_f1_score": 50.0})


def test_the_error_of_a_headline_that_is_no_mean_comes_back(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"tasks": {"f1": 0.75}, "score": 0.75}
    result, _ = exported(tmp_path, "lm_eval", "t", "f1", **fields)
    verdict = verdict_of(result.cell, read_back(tmp_path))
    assert verdict.score["summary"]["bootstrap_stderr"] == result.stderr
