"""The interval of a judge's verdicts, against scipy."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

from benchfleet.reports.judging import Judged, judged

stats = pytest.importorskip("scipy.stats")

NAMES = ("m", "c", "b", "judge")
VERDICTS = {"q1": [5, 5, 4, 5], "q2": [1, 1, 2, 1], "q3": [3, 3, 3, 4], "q4": [5, 4, 4, 5]}


def verdict(answer: str, score: float, order: int | None = None) -> dict[str, Any]:
    """A judge's sample as it is stored."""
    id = answer if order is None else f"{answer}~{order}"
    return {"id": id, "columns": {"question": answer}, "score": score}


def answers(field: str = "question") -> dict[str, tuple[dict[str, Any], float]]:
    """Answers by id, each with its verdict; those of one question are independent of no other."""
    return {
        f"{question}~{draw}": ({"id": f"{question}~{draw}", field: question}, float(score))
        for question, scores in VERDICTS.items()
        for draw, score in enumerate(scores)
    }


def expected() -> tuple[float, float]:
    """Student's interval of the questions' means."""
    means = [fmean(scores) for scores in VERDICTS.values()]
    low, high = stats.t.interval(0.95, len(means) - 1, fmean(means), stats.sem(means))
    return float(low), float(high)


def row(samples: list[dict[str, Any]], judged_answers: list[dict[str, Any]]) -> Judged:
    one = judged(NAMES, samples, {}, judged_answers)
    assert one is not None
    return one


@pytest.mark.parametrize("field", ["question", "context"])
def test_answers_that_share_a_question_or_a_context_are_one_cluster(field: str) -> None:
    both = answers(field)
    samples = [verdict(name, score) for name, (_, score) in both.items()]
    one = row(samples, [answer for answer, _ in both.values()])
    assert one.interval == pytest.approx(expected())
    assert one.scored == 16


def test_both_orders_of_a_pair_are_one_verdict_of_their_question() -> None:
    both = answers()
    samples = [verdict(name, score, n) for name, (_, score) in both.items() for n in (0, 1)]
    one = row(samples, [answer for answer, _ in both.values()])
    assert one.interval == pytest.approx(expected())
    assert one.scored == 16


def test_every_answer_and_every_pair_is_scored_or_unscored() -> None:
    ends = ("empty", "unparsed", "length", "refused", "error")
    without = [
        {"id": f"n{n}", "ended": end, "columns": {"question": f"n{n}"}}
        for n, end in enumerate(ends)
    ]
    one = row([verdict("a", 3.0), verdict("b", 4.0), *without], [])
    assert (one.scored, one.unscored) == (2, 5)
    # A pair of which one order has no verdict has no score; both orders are one pair.
    half = [
        {"id": f"n~{order}", "ended": end, "columns": {"question": "n"}}
        for order, end in enumerate(("stop", "unparsed"))
    ]
    pairs = [verdict(name, 1.0, order) for name in "ab" for order in (0, 1)]
    one = row([*pairs, *half], [])
    assert (one.scored, one.unscored) == (2, 1)


def test_single_answers_have_the_interval_of_their_mean() -> None:
    scores = [5.0, 1.0, 4.0, 2.0]
    one = row([verdict(f"q{n}", score) for n, score in enumerate(scores)], [])
    low, high = stats.t.interval(0.95, 3, fmean(scores), stats.sem(scores))
    assert one.interval == pytest.approx((low, high))
