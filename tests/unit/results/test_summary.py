"""The few numbers that the ledger keeps."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchfleet.results.summary import averaged_samples, numbers_and_truths, summarise


def score(overall: float, *per_sample: float) -> dict[str, object]:
    return {"overall": overall, "per_sample": list(per_sample)}


def test_the_standard_error_is_that_of_the_samples() -> None:
    metrics = summarise(score(0.5, 0, 1, 0, 1), [{}, {}, {}, {}])
    assert metrics["stderr"] == pytest.approx(math.sqrt((4 * 0.25) / 3 / 4))


def test_tokens_add_up_and_measures_are_averaged() -> None:
    records = [
        {"completion_tokens": 3, "seconds": 0.5, "measures": {"density": 0.2}},
        {"completion_tokens": 5, "seconds": 1.0, "measures": {"density": 0.4}},
    ]
    metrics = summarise(score(1.0, 1, 1), records)
    assert metrics["completion_tokens"] == 8
    assert metrics["seconds"] == 1.5
    assert metrics["density"] == pytest.approx(0.3)


def test_measures_of_all_answers_count_where_the_samples_have_none() -> None:
    of_all = {"completion_tokens": 8, "seconds": 1.5, "density": 0.3}
    alone = summarise({**score(1.0), "measures": of_all}, [])
    assert alone.items() >= of_all.items()
    records = [{"completion_tokens": 3, "measures": {"density": 0.2}}]
    metrics = summarise({**score(1.0, 1), "measures": of_all}, records)
    assert (metrics["completion_tokens"], metrics["density"], metrics["seconds"]) == (3, 0.2, 1.5)


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), "no number", None, [1.0], 10**400, -(10**400)]
)
def test_what_is_no_finite_number_is_refused_wherever_it_stands(bad: Any) -> None:
    of_sample: list[Any] = [({"overall": 1.0, "per_sample": [bad]}, {})] if bad is not None else []
    for given, record in [
        ({"overall": bad, "per_sample": []}, {}),
        *of_sample,
        ({"overall": 1.0, "per_sample": []}, {"seconds": bad}),
        ({"overall": 1.0, "per_sample": []}, {"measures": {"density": bad}}),
        ({"overall": 1.0, "per_sample": [], "measures": {"density": bad}}, {}),
    ]:
        with pytest.raises(ValueError, match="not a finite number"):
            summarise(given, [record])


def test_a_sample_without_a_score_is_counted_and_no_zero() -> None:
    given = {"overall": 0.5, "per_sample": [1.0, None, 0.0]}
    metrics = summarise(given, [{}, {}, {}])
    assert (metrics["unscored"], metrics["samples"]) == (1, 3)
    assert metrics["stderr"] == pytest.approx(0.5)


def test_samples_of_one_context_count_as_a_cluster() -> None:
    scores = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    records = [{"id": str(n), "context": "abc"[n // 2]} for n in range(6)]
    metrics = summarise(score(0.5, *scores), records)
    residuals = [1.0, 0.0, -1.0]  # summed over each context (arXiv 2411.00640, eq. 4)
    expected = math.sqrt(3 / 2 * sum(one**2 for one in residuals)) / 6
    assert metrics["stderr"] == pytest.approx(expected)
    one_context = [{"id": str(n), "context": "a"} for n in range(6)]
    assert "stderr" not in summarise(score(0.5, *scores), one_context)


def test_samples_with_one_id_or_question_are_one_value() -> None:
    records = [{"id": "a"}, {"id": "a"}, {"id": "b"}, {"id": "b"}]
    assert summarise(score(0.5, 1, 1, 0, 0), records)["stderr"] == pytest.approx(0.5)
    draws = [{"id": f"q~{n}", "question": "q"} for n in range(4)]
    assert "stderr" not in summarise(score(0.5, 1, 0, 1, 0), draws)


def test_a_headline_that_is_no_mean_has_the_error_of_the_bootstrap_alone() -> None:
    records = [{"id": str(n)} for n in range(4)]
    other = score(0.9, 0, 1, 0, 1)
    assert "stderr" not in summarise(other, records)
    bootstrapped = {**other, "summary": {"bootstrap_stderr": 0.05}}
    assert summarise(bootstrapped, records)["stderr"] == 0.05


@pytest.mark.parametrize("bad", [[1.0], "density", 0.5, None])
def test_measures_that_have_no_names_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="the measures of a sample are"):
        summarise(score(1.0), [{"measures": bad}])


@pytest.mark.parametrize("size", [1e200, 1e308, 1e-200])
def test_scores_and_measures_of_any_size_are_summarised(size: float) -> None:
    records = [{"measures": {"loss": size}}] * 4
    metrics = summarise(score(size / 2, 0, size, 0, size), records)
    assert metrics["stderr"] / size == pytest.approx(math.sqrt((4 * 0.25) / 3 / 4))
    assert metrics["loss"] == pytest.approx(size)


def test_sums_beyond_what_a_float_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="seconds is inf"):
        summarise(score(1.0), [{"seconds": 1e308}] * 2)


def test_a_measure_takes_no_headline_s_place() -> None:
    assert summarise(score(1.0), [{"measures": {"overall_score": 9.0}}])["overall_score"] == 1.0


def test_equal_scores_have_no_error() -> None:
    assert summarise(score(0.0, 0.0, 0.0), [{}, {}])["stderr"] == 0.0


def test_one_sample_has_no_standard_error() -> None:
    assert "stderr" not in summarise(score(1.0, 1), [{}])


def test_a_summary_says_of_how_many_samples_its_headline_is_the_mean() -> None:
    def averaged(overall: float, *per_sample: float | None, **reported: float) -> int:
        content = {"overall": overall, "per_sample": [*per_sample], "summary": reported}
        metrics = summarise(content, [{"id": str(n)} for n in range(len(per_sample))])
        return averaged_samples(metrics, numbers_and_truths(reported))

    assert averaged(0.5, 0.0, 1.0, None) == 2
    assert averaged(0.5, 0.0, 1.0, bootstrap_stderr=0.1) == 2
    assert averaged(0.25, 0.25) == 1
    assert averaged(0.7, 0.0, 1.0) == 0
    assert averaged(0.7, 0.0, 1.0, bootstrap_stderr=0.1) == 0
    assert averaged(0.7, None, None) == 0
