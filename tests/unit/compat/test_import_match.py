"""The cell of a result is found by the names that its harness has for tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet import registry
from benchfleet.benchmarks.base import Benchmark, Score, Session
from benchfleet.compat.imports.match import Matches, match
from benchfleet.compat.imports.result import ForeignResult
from benchfleet.testing import sample_cell


class Plain(Benchmark):
    """A user's benchmark that overrides no optional member."""

    def params(self) -> Mapping[str, Any]:
        return {}

    def run(self, session: Session) -> Score:
        raise NotImplementedError


class Wrapper(Plain):
    """A user's benchmark over the tasks of a harness."""

    def harness_tasks(self, subset: str | None) -> Sequence[str]:
        return ["sums_v2"] if subset else ["sums_v2", "products_v2"]


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Plain", "Wrapper"):
        monkeypatch.setitem(registry._BUILT_IN["benchmarks"], name.lower(), f"{__name__}:{name}")


def foreign(benchmark: str, **settings: Any) -> ForeignResult:
    return ForeignResult(
        file=Path("r.json"),
        harness="lm-eval 0.4",
        model="tiny",
        benchmark=benchmark,
        settings=settings,
    )


def matched(task: str, benchmark: str, subset: str | None = None) -> Matches:
    cell = sample_cell(benchmark=benchmark, subset=subset)
    return match([cell], [foreign(task)], config="dense")


@pytest.mark.parametrize(
    ("task", "benchmark", "subset"),
    [
        ("sums_v2", "wrapper", "sums"),
        ("plain", "plain", None),
        ("gpqa_diamond_cot_zeroshot", "gpqa", None),
    ],
)
def test_a_result_is_of_the_cell_of_its_task(task: str, benchmark: str, subset: str | None) -> None:
    assert len(matched(task, benchmark, subset).cells) == 1


@pytest.mark.parametrize(("benchmark", "subset"), [("wrapper", None), ("plain", "sums")])
def test_a_result_of_one_task_is_not_of_a_cell_with_several_or_none(
    benchmark: str, subset: str | None
) -> None:
    ((_, why),) = matched("sums_v2", benchmark, subset).others
    assert why == "the campaign has no benchmark of sums_v2"


@pytest.mark.parametrize(("shots", "named"), [(0, ""), (2, "few"), (5, "")])
def test_a_result_is_of_the_cell_with_its_number_of_examples(shots: int, named: str) -> None:
    plain = sample_cell(benchmark="lm_eval", subset="sums")
    params = {"name": "few", "num_fewshot": 2}
    few = replace(plain, workload=replace(plain.workload, params=params, called="few"))
    result = foreign("sums", num_fewshot=shots)
    (found,) = match([plain, few], [result], config="dense").cells
    assert found[0].workload.called == named


@pytest.mark.parametrize(
    ("cells_own", "other", "why"),
    [
        (0.7, {"do_sample": True, "temperature": 0.7}, ""),
        (0.7, {"temperature": 0.7}, ""),
        (0, {"do_sample": False}, ""),
        (0, {}, ""),
        (0.7, {"do_sample": False}, "it has temperature 0, and the cell has temperature 0.7"),
        (0, {"do_sample": True, "temperature": 1.0}, "it has temperature 1, and the cell has"),
        (None, {"do_sample": True, "temperature": 1.0}, ""),  # of the cell's task nothing is known
        (0.7, None, ""),
        (0.7, {"do_sample": False, "temperature": 1.0}, ""),  # some models take the one, or other
        (0.7, {"do_sample": True}, ""),
    ],
)
def test_a_result_of_another_temperature_than_the_cell_names_is_of_no_cell(
    cells_own: float | None, other: Mapping[str, Any] | None, why: str
) -> None:
    cell = sample_cell(benchmark="lm_eval", subset="sums")
    generation = {} if cells_own is None else {"temperature": cells_own}
    cell = replace(cell, workload=replace(cell.workload, generation=generation))
    result = foreign("sums", generation_kwargs=other)
    found = match([cell], [result], config="dense")
    assert (len(found.cells), len(found.others)) == ((0, 1) if why else (1, 0))
    assert all(why in reason for _, reason in found.others)
