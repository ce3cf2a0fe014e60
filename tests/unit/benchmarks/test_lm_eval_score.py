"""Which of lm-eval's metrics makes the headline, and what else of its results is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchfleet.benchmarks.lm_eval.parts import interleaved
from benchfleet.benchmarks.lm_eval.score import scored
from benchfleet.errors import CellFailure


def results(
    metrics: Mapping[str, Any],
    *,
    better: Mapping[str, bool] | None = None,
    samples: Mapping[str, list[Any]] | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What `evaluate` gives back for the task ``t``."""
    logged: dict[tuple[str, int], dict[str, Any]] = {}
    for key, values in (samples or {}).items():
        name, _, filtered = key.partition(",")
        for doc_id, value in reversed(list(enumerate(values))):
            entry = logged.setdefault((filtered, doc_id), {"doc_id": doc_id, "filter": filtered})
            entry[name] = value
    return {
        "results": {"t": {"name": "t", "alias": "t", "sample_len": 2, **metrics}},
        "higher_is_better": {"t": better or {}},
        "samples": {"t": list(logged.values())},
        "configs": {"t": config or {"task": "t"}},
        "versions": {"t": 1.0},
        "n-shot": {"t": 0},
    }


def test_every_metric_is_kept_and_the_first_makes_the_headline() -> None:
    given = results(
        {"acc,none": 0.5, "acc_stderr,none": "N/A", "f1,none": 0.4},
        better={"acc": True, "f1": True},
        samples={"acc,none": [1.0, 0.0], "f1,none": [(0, 1), (1, 1)]},
    )
    score = scored(given, "t")
    assert (score.overall, score.per_sample) == (0.5, [1.0, 0.0])
    assert score.tasks == {"acc": 0.5, "f1": 0.4}
    assert score.summary["metric"] == "acc"
    assert (score.summary["task_version"], score.summary["num_fewshot"]) == (1.0, 0)


def test_the_normalised_accuracy_goes_before_the_plain_one() -> None:
    given = results({"acc,none": 0.5, "acc_norm,none": 0.75})
    assert scored(given, "t").overall == 0.75
    assert scored(given, "t", metric="acc").overall == 0.5


def test_a_metric_may_be_named_with_its_filter() -> None:
    given = results(
        {"exact_match,strict-match": 0.25, "exact_match,flexible-extract": 0.5},
        samples={"exact_match,strict-match": [0, 0], "exact_match,flexible-extract": [1, 0]},
    )
    assert scored(given, "t").summary["metric"] == "exact_match,strict-match"
    flexible = scored(given, "t", metric="exact_match,flexible-extract")
    assert (flexible.overall, flexible.per_sample) == (0.5, [1.0, 0.0])
    assert flexible.tasks == {
        "exact_match,strict-match": 0.25,
        "exact_match,flexible-extract": 0.5,
    }


def test_where_less_is_better_of_one_metric_another_is_chosen() -> None:
    given = results(
        {"perplexity,none": 20.0, "acc,none": 0.5}, better={"perplexity": False, "acc": True}
    )
    assert scored(given, "t").overall == 0.5


def test_where_less_is_better_of_all_the_negative_makes_larger_better() -> None:
    given = results(
        {"word_perplexity,none": 20.0, "bits_per_byte,none": 1.5},
        better={"word_perplexity": False, "bits_per_byte": False},
        samples={"word_perplexity,none": [(-3.0, 2), (-4.0, 2)]},
    )
    score = scored(given, "t")
    assert (score.overall, score.per_sample) == (-20.0, [])
    assert score.tasks == {"word_perplexity": 20.0, "bits_per_byte": 1.5}


def test_a_length_that_was_not_asked_makes_no_headline() -> None:
    given = results(
        {"4096,none": -1.0, "8192,none": 0.5},
        samples={"4096,none": [-1.0, -1.0], "8192,none": [1.0, 0.0]},
    )
    score = scored(given, "t")
    assert (score.overall, score.per_sample) == (0.5, [1.0, 0.0])


def test_scores_of_single_documents_are_left_out_where_some_have_none() -> None:
    given = results({"8192,none": 1.0}, samples={"8192,none": [1.0, -1.0]})
    assert scored(given, "t").per_sample == []


@pytest.mark.parametrize(
    ("metrics", "metric", "message"),
    [
        ({"acc,none": 0.5}, "f1", "t has no metric 'f1'; there are acc"),
        ({}, None, "there are none"),
        ({"acc,none": float("nan")}, None, "acc of t is nan"),
    ],
)
def test_no_headline_is_a_failure_that_says_what_there_is(
    metrics: Mapping[str, Any], metric: str | None, message: str
) -> None:
    with pytest.raises(CellFailure, match=message):
        scored(results(metrics), "t", metric=metric)


def test_the_tasks_digest_follows_what_it_says_and_not_where_it_lies() -> None:
    def digest(**config: Any) -> Any:
        return scored(results({"acc,none": 1.0}, config=config), "t").summary["task_digest"]

    assert digest(task="t", metadata={"config_source": "/a"}) == digest(task="t", metadata=None)
    assert digest(task="t", fewshot_config={"process": len}) == digest(
        task="t", fewshot_config={"process": len}
    )
    assert digest(task="t", doc_to_text="a") != digest(task="t", doc_to_text="b")


def test_metrics_keep_their_order_their_direction_and_the_error_of_a_mean() -> None:
    given = results(
        {"b,none": 0.5, "a,strict": 0.4, "nan,none": float("nan")},
        better={"b": True, "a": False},
        samples={"b,none": [1.0, 0.0], "a,strict": [1.0, 0.0]},
    )
    given["n-samples"] = {"t": {"original": 9, "effective": 2}}
    summary = scored(given, "t").summary
    assert summary["lm_eval_metrics"] == [
        {"name": "b", "higher_is_better": True, "stderr": pytest.approx(0.5)},
        {"name": "a,strict", "higher_is_better": False},  # which is no mean
    ]
    assert summary["lm_eval_documents"] == {"original": 9, "effective": 2}


def test_several_draws_have_no_error_of_a_single_one() -> None:
    draw = scored(results({"acc,none": 0.5}, samples={"acc,none": [1.0, 0.0]}), "t")
    assert "stderr" in draw.summary["lm_eval_metrics"][0]
    assert interleaved([draw, draw]).summary["lm_eval_metrics"] == [{"name": "acc"}]
