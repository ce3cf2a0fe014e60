"""The few numbers that the ledger keeps."""

from __future__ import annotations

import math

import pytest

from benchfleet.results.summary import summarise


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "no number", None])
def test_a_score_that_is_no_number_is_refused(bad: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        summarise({"overall": bad, "per_sample": []}, [])


def test_one_sample_has_no_standard_error() -> None:
    assert "stderr" not in summarise(score(1.0, 1), [{}])
