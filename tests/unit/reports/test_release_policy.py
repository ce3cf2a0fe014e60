"""Verdicts by a policy on two sets of results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchfleet.cli.text.change_table import markdown_table, verdict_lines
from benchfleet.errors import CampaignError
from benchfleet.reports.proportions import paired_interval
from benchfleet.reports.release_policy import judge, overall, read_policy
from benchfleet.reports.side_by_side import changes

from .conftest import Study, present
from .two_sides import RIGHT, SAME, WORSE, of_suites, policy, side, two


@pytest.mark.parametrize(
    ("after", "max_drop", "verdict"),
    [(SAME, 0.1, "GO"), (WORSE, 0.05, "NO-GO"), (SAME, 0.01, "INCONCLUSIVE"), (WORSE, 0.5, "GO")],
)
def test_the_verdict_follows_the_interval(
    after: Sequence[float], max_drop: float, verdict: str
) -> None:
    rules = policy({"benchmark": "recall*", "max_drop": max_drop})
    judgements = judge(changes(*two(RIGHT, after)), rules)
    assert overall(judgements, rules) == verdict


def test_an_open_verdict_says_how_many_more_samples_would_decide() -> None:
    rules = policy({"max_drop": 0.01})
    (one,) = judge(changes(*two(RIGHT, SAME)), rules)
    n = 100 + (one.more_samples or 0)
    assert paired_interval(n / 100, n / 100, n)[0] > -0.01
    assert paired_interval((n - 1) / 100, (n - 1) / 100, n - 1)[0] <= -0.01


def test_a_verdict_that_no_number_of_samples_decides_names_none() -> None:
    rules = policy({"max_drop": 0.3})
    (one,) = judge(changes(*two(RIGHT, WORSE)), rules)
    assert (one.verdict, one.more_samples) == ("INCONCLUSIVE", None)


def test_few_equal_samples_are_no_go() -> None:
    """Two samples that agree say little about others; 381 exclude a drop of 0.01."""
    rules = policy({"max_drop": 0.01})
    (few,) = judge(changes(*two([1.0, 0.0], [1.0, 0.0])), rules)
    assert (few.verdict, few.more_samples) == ("INCONCLUSIVE", 379)
    (many,) = judge(changes(*two([1.0, 0.0] * 200, [1.0, 0.0] * 200)), rules)
    assert many.verdict == "GO"


def test_equal_scores_beyond_one_have_no_limit() -> None:
    rules = policy({"max_drop": 1})
    (one,) = judge(changes(*two([55.0] * 400, [55.0] * 400)), rules)
    assert (one.verdict, one.more_samples) == ("INCONCLUSIVE", None)


def test_a_percentage_without_its_sign_is_refused() -> None:
    with pytest.raises(CampaignError, match="write 5% for a percentage"):
        policy({"max_relative_drop": 5})


def test_a_percentage_above_100_is_refused_without_a_second_sign() -> None:
    with pytest.raises(CampaignError, match="write 100% at most"):
        policy({"max_relative_drop": "120%"})


def test_a_list_of_names_and_a_boolean_drop_are_refused() -> None:
    with pytest.raises(CampaignError) as error:
        policy({"benchmark": ["a", "b"], "max_drop": True})
    keys = [mistake.key for mistake in error.value.mistakes]
    assert keys == ["rules[0].benchmark", "rules[0].max_drop"]
    assert "a rule for each" in str(error.value)


def test_a_suite_of_equal_samples_needs_more_of_each_part() -> None:
    """z²/(n + z²) of each of two parts is √½ times that of both; it falls below 0.01 at n = 268."""
    same = {"128": [1.0] * 200, "512": [1.0] * 200}
    core = of_suites(same, same)[-1]
    (one,) = judge([core], policy({"benchmark": "core", "max_drop": 0.01}))
    assert one.verdict == "INCONCLUSIVE"
    assert one.more_samples == pytest.approx(2 * 268 - 400, abs=2)


def test_a_relative_drop_is_a_share_of_the_first_mean() -> None:
    rules = policy({"max_relative_drop": "10%"})
    (one,) = judge(changes(*two(RIGHT, WORSE)), rules)
    assert one.margin == pytest.approx(0.09)


@pytest.mark.parametrize(
    ("level", "verdict"),
    [("critical", "NO-GO"), ("supporting", "INCONCLUSIVE"), ("advisory", "GO")],
)
def test_levels_weigh_a_drop(level: str, verdict: str) -> None:
    first, second = Study(), Study()
    for subset, after in (("128", RIGHT), ("512", WORSE)):
        first.done("dense", RIGHT, subset=subset)
        second.done("dense", after, subset=subset)
    rules = policy(
        {"benchmark": "recall_128", "max_drop": 0.05},
        {"benchmark": "recall_512", "level": level, "max_drop": 0.01},
    )
    judgements = judge(changes(side("old", first), side("new", second)), rules)
    assert overall(judgements, rules) == verdict


def test_a_rule_may_name_all_benchmarks_but_some() -> None:
    rules = policy({"benchmark": "!recall_*", "max_drop": 0.3}, {"max_drop": 0.01})
    (judgement,) = judge(changes(*two(RIGHT, WORSE)), rules)
    assert judgement.rule is rules[1]


def test_a_critical_rule_without_a_result_is_never_a_go() -> None:
    rules = policy({"benchmark": "recal_*", "max_drop": 0.1}, {"benchmark": "*", "max_drop": 0.5})
    compared = changes(*two(RIGHT, RIGHT))
    judgements = judge(compared, rules)
    assert overall(judgements, rules) == "INCONCLUSIVE"
    assert any(
        "did you mean 'recall_512'" in line for line in verdict_lines(compared, judgements, rules)
    )


def test_mistakes_of_a_policy_are_reported_together() -> None:
    with pytest.raises(CampaignError) as error:
        policy({"level": "criticl", "max_drop": "x"}, {"benchmark": "a", "drop": 1})
    keys = [mistake.key for mistake in error.value.mistakes]
    assert keys == ["rules[0].level", "rules[0].max_drop", "rules[1].drop", "rules[1]"]
    with pytest.raises(CampaignError, match="rules"):
        read_policy([], file="x")


def test_a_summary_for_a_pull_request_shows_names_as_text() -> None:
    first, second = two(RIGHT, WORSE, model="a|b<i>")
    compared = changes(first, second)
    rules = policy({"max_drop": 0.01})
    text = markdown_table(("old|", "new"), compared, judge(compared, rules), rules)
    assert text.startswith("**NO-GO**\n\n| benchmark | old\\| | new |")
    assert "<i>" not in text
    assert "1 regression: recall_512" in text


def test_a_suite_with_a_part_of_few_equal_samples_is_no_go() -> None:
    """Two equal samples say nothing of the rest of their benchmark, however sure the other is."""
    sure = [0.5 + (n % 2) / 100 for n in range(400)]
    moved = [value + (n % 3) / 1000 for n, value in enumerate(sure)]
    few = of_suites({"128": sure, "512": [1.0] * 2}, {"128": moved, "512": [1.0] * 2})[-1]
    many = of_suites({"128": sure, "512": [1.0] * 400}, {"128": moved, "512": [1.0] * 400})[-1]
    rules = policy({"benchmark": "core", "max_drop": 0.01})
    assert [judge([one], rules)[0].verdict for one in (few, many)] == ["INCONCLUSIVE", "GO"]
    half_of_unseen = 1.96**2 / (2 + 1.96**2) / 2
    low, _ = present(few.difference.interval)
    assert present(few.difference.difference) - low == pytest.approx(half_of_unseen, rel=1e-3)
