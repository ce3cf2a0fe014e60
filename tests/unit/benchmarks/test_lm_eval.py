"""The lm-eval benchmark's parameters and identity; it reads tasks from a temporary folder."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.lm_eval.benchmark import LmEval
from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.generation import Generation
from benchfleet.models.mock import MockAdapter

EXAMPLES = Path(__file__).parents[3] / "examples" / "recall"


def shipped(**params: Any) -> LmEval:
    return LmEval({"folder": str(EXAMPLES), "include_path": "./tasks", **params})


def test_where_the_tasks_lie_is_no_part_of_the_identity() -> None:
    assert "include_path" not in shipped().params()
    assert shipped().outside() == {"folder": str(EXAMPLES), "include_path": "./tasks"}
    here = LmEval({"folder": str(EXAMPLES / "tasks"), "include_path": "."})
    assert here.params() == shipped().params()
    assert here.data_digest("recall_choice") == shipped().data_digest("recall_choice")


def test_what_it_tells_makes_the_same_benchmark_again() -> None:
    first = shipped(num_fewshot=3, metric="acc")
    second = LmEval({**first.params(), **first.outside()})
    assert (second.params(), second.outside()) == (first.params(), first.outside())
    assert second.params()["num_fewshot"] == 3


def test_a_name_of_its_own_is_part_of_the_identity_where_it_is_given() -> None:
    assert "name" not in shipped().params()
    assert shipped().name == ""
    named = shipped(name="few", num_fewshot=2)
    assert (named.name, named.params()["name"]) == ("few", "few")
    assert LmEval({**named.params(), **named.outside()}).name == "few"


def test_each_task_has_a_digest_of_its_own() -> None:
    digests = {shipped().data_digest(name) for name in ("recall_choice", "recall_generate")}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_fewshots": 5}, "did you mean 'num_fewshot'"),
        ({"num_fewshot": -1}, "num_fewshot must be a whole number"),
        ({"max_length": 0}, "max_length must be a whole number"),
        ({"include_path": ["a"]}, "include_path must be a folder"),
        ({"metadata": "x"}, "metadata must be a mapping"),
        ({"apply_chat_template": "yes"}, "apply_chat_template must be true or false"),
        ({"name": ""}, "name must be text"),
        ({"metric": 1}, "metric must be the name of a metric"),
    ],
)
def test_wrong_parameters_are_refused_with_what_to_do(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shipped(**params)


@pytest.mark.slow
def test_a_task_is_looked_for_in_the_folder_and_then_in_lm_eval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("lm_eval")
    for variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    assert shipped().check_subset("recall_choice") is None
    assert shipped().check_subset("gsm8k") is None
    assert "no task 'recal_choice'" in (shipped().check_subset("recal_choice") or "")
    assert "is not a folder" in (shipped(include_path="./gone").check_subset("gsm8k") or "")
    assert shipped().data_digest("gsm8k") != shipped().data_digest("recall_choice")


def test_it_takes_the_generation_settings_that_the_adapters_check() -> None:
    from benchfleet.benchmarks.lm_eval.harness import _GENERATION

    assert {*_GENERATION, "seed"} == {field.name for field in fields(Generation)}


def test_an_adapter_that_lends_no_model_is_refused_by_name(session: Any) -> None:
    given = session(lambda prompt: "", subset="recall_choice")
    given.adapter = MockAdapter(Model(name="m", adapter="mock", source="m", digest="mock"))
    with pytest.raises(CellFailure, match="the adapter of m does not lend its model") as e:
        shipped().run(given)
    assert (e.value.stage, e.value.kind) == ("benchmark", "user_error")
