"""Several answers to each question, against published estimators and worked examples."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchfleet.domain.question_draws import (
    draw_metrics,
    majority,
    pass_at,
    pass_hat,
    seed_of_draw,
)


def published_pass_at_k(n: int, c: int, k: int) -> float:
    """Figure 3 of arXiv 2107.03374, as numpy computes it there."""
    numpy = pytest.importorskip("numpy")
    if n - c < k:
        return 1.0
    return float(1.0 - numpy.prod(1.0 - k / numpy.arange(n - c + 1, n + 1)))


@pytest.mark.parametrize("n", [1, 2, 5, 10, 200])
def test_pass_at_k_is_the_published_estimator(n: int) -> None:
    for c in {0, 1, n // 2, n - 1, n}:
        for k in {1, n // 2 or 1, n}:
            assert pass_at(n, c, k) == pytest.approx(published_pass_at_k(n, c, k), abs=1e-12)


def test_both_are_the_shares_of_all_choices() -> None:
    right = [True, True, False, False, False]
    choices = list(combinations(right, 3))
    assert pass_at(5, 2, 3) == pytest.approx(sum(map(any, choices)) / len(choices)) == 0.9
    assert pass_hat(5, 3, 2) == pytest.approx(
        sum(all(one) for one in combinations([True, True, True, False, False], 2)) / 10
    )
    assert pass_hat(5, 2, 3) == 0.0


def test_a_wrong_k_is_named() -> None:
    with pytest.raises(ValueError, match="use 1 <= k <= n"):
        pass_at(4, 2, 5)


def test_the_majority_is_the_most_frequent_answer() -> None:
    # The worked example of self-consistency, arXiv 2203.11171, figure 1: $18, $26, $18.
    assert majority(["$18", "$26", "$18"], [1.0, 0.0, 1.0]) == 1.0
    assert majority(["a", "b"], [1.0, 0.0]) == 0.5
    assert majority(["", "b"], [0.0, 1.0]) == 1.0
    assert majority(["", " "], [0.0, 0.0]) == 0.0


def test_a_cell_has_the_means_over_its_questions() -> None:
    answers = {"q": ["1", "1", "2", "3"], "r": ["5", "6", "6", "6"]}
    scores = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    records = [
        {"question": name, "draw": draw, "predicted_answer": text}
        for name in answers
        for draw, text in enumerate(answers[name])
    ]
    assert draw_metrics(records, scores) == pytest.approx(
        {
            "avg_at_4": 3 / 8,
            "pass_at_1": 3 / 8,
            "pass_at_2": (5 / 6 + 1 / 2) / 2,
            "pass_at_4": 1.0,
            "pass_hat_1": 3 / 8,
            "pass_hat_2": (1 / 6 + 0) / 2,
            "pass_hat_4": 0.0,
            "maj_at_1": 1.0,
            "maj_at_2": (1.0 + 0.5) / 2,
            "maj_at_4": 0.5,
        }
    )


def test_scores_that_are_no_truth_values_have_no_pass_rates() -> None:
    records = [{"question": "q", "draw": draw, "predicted_answer": "a"} for draw in range(2)]
    assert set(draw_metrics(records, [0.3, 1.0])) == {"avg_at_2", "maj_at_1", "maj_at_2"}
    assert draw_metrics([{"predicted_answer": "a"}] * 2, [1.0, 0.0]) == {}


def test_verdicts_about_the_answers_to_a_question_are_no_draws() -> None:
    assert draw_metrics([{"question": "q", "predicted_answer": "a"}] * 2, [1.0, 0.0]) == {}


def test_close_seeds_share_no_seed_of_a_draw() -> None:
    """As those of repeats are, or 5 and 6 in a campaign file."""
    seeds = [seed_of_draw(seed, draw) for seed in range(1234, 1264) for draw in range(30)]
    assert len(set(seeds)) == len(seeds)
    assert [seed_of_draw(seed, 0) for seed in (0, 5, 2**40)] == [0, 5, 2**40]
    assert 0 <= min(seeds) <= max(seeds) < 2**31  # what every server takes
