"""Shares of answers that ended otherwise than they should, of cut prompts, and warnings."""

from __future__ import annotations

from benchfleet.domain.attempt import Outcome
from benchfleet.reports.endings import Endings, endings_of, first_warnings, truncation_warning


def outcome(**metrics: float) -> Outcome:
    return Outcome(state="success", metrics={"overall_score": 0.5, **metrics})


def test_repeats_are_weighted_by_their_samples() -> None:
    one = outcome(samples=10, ended_length=0.1, score_stop=0.6)
    endings = endings_of([one, outcome(samples=30)])
    assert endings.shares == {"length": 0.025}
    assert endings.score_stop == (10 * 0.6 + 30 * 0.5) / 40


def test_without_odd_ends_there_is_no_second_score() -> None:
    assert endings_of([outcome(samples=10, same_answer=0.2)]) == Endings(same_answer=0.2)


def test_a_report_warns_above_the_limits_only() -> None:
    fine = Endings(shares={"length": 0.05, "unparsed": 0.20, "empty": 0.20}, same_answer=0.90)
    bad = Endings(shares={"length": 0.06, "unparsed": 0.21, "empty": 0.22}, same_answer=0.91)
    assert first_warnings([("m / c / b", fine)]) == ()
    texts = first_warnings([("m / c / b", bad)])
    assert [text.split(": ", 1)[1].split(";")[0] for text in texts] == [
        "6% of the answers were cut off by length",
        "no answer was found in 21% of the texts",
        "22% of the answers are empty",
        "one answer was given to 91% of the questions",
    ]


def test_prompts_that_were_cut_are_one_warning() -> None:
    assert endings_of([outcome(samples=10, truncated=0.5), outcome(samples=30)]).truncated == 0.125
    assert truncation_warning({"m / b": 0.0}) == ()
    shares = {"m / a": 1.0, "m / b": 0.0, "m / c": 0.5, "n / c": 0.25, "o / c": 0.1}
    (text,) = truncation_warning(shares)
    assert text == (
        "longer than the model takes, so a part was cut out: m / a (100% of the prompts), "
        "m / c (50% of the prompts), n / c (25% of the prompts) and 1 more; a low score may come "
        "from that"
    )


def test_of_many_warnings_the_rest_is_counted() -> None:
    bad = Endings(shares={"length": 0.5})
    texts = first_warnings([(f"m / c / b{n}", bad) for n in range(9)])
    assert len(texts) == 7
    assert texts[-1].startswith("and 3 more warnings")
