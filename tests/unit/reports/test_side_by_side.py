"""Two sets of results side by side, and a verdict by a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchfleet.cli.text.change_table import markdown_table, short_names, verdict_lines
from benchfleet.domain.suite import Part, Suite
from benchfleet.errors import CampaignError
from benchfleet.reports.proportions import paired_interval
from benchfleet.reports.release_policy import judge, overall, read_policy
from benchfleet.reports.side_by_side import Side, changes
from benchfleet.results.read import SampleScores

from .conftest import Study

RIGHT = [1.0] * 90 + [0.0] * 10
SAME = [0.0] + [1.0] * 90 + [0.0] * 9  # one lost, one gained
WORSE = [0.0] * 40 + [1.0] * 60


def side(
    name: str, study: Study, *, only: str = "", fixed: str = "", suites: Sequence[Suite] = ()
) -> Side:
    cells = [cell for cell in study.cells if not only or cell.config.name == only]
    return Side(
        name=name,
        cells=cells,
        records=study.records,
        scores=lambda record: SampleScores(scores=study.samples[record.fingerprint]),
        fixed=frozenset({fixed} - {""}),
        suites=suites,
    )


def two(before: list[float], after: list[float], **place: str) -> tuple[Side, Side]:
    first, second = Study(), Study()
    first.done("dense", before, **place)
    second.done("dense", after, **place)
    return side("old", first), side("new", second)


def policy(*rules: dict[str, object]):
    return read_policy({"rules": list(rules)}, file="release.yaml")


def test_a_significant_drop_is_a_regression_and_names_its_samples():
    (change,) = changes(*two(RIGHT, WORSE))
    assert change.name == "tiny × dense / recall_512"
    assert change.difference.difference == pytest.approx(-0.3)
    assert change.regression
    assert len(change.lost) == 40
    assert len(change.gained) == 10
    assert change.lost[0] == "0-0"


def test_a_repeat_that_has_only_a_headline_is_no_flipped_sample():
    before, after = Study(), Study()
    for repeat in range(3):
        before.done("dense", [], headline=0.0, repeat=repeat)
        after.done("dense", [], headline=1.0, repeat=repeat)
    (change,) = changes(side("old", before), side("new", after))
    assert change.difference.difference == 1.0
    assert change.gained == ()


def test_a_drop_below_the_minimum_effect_is_no_regression():
    before, after = two([0.5, 0.6, 0.7] * 20, [0.499, 0.598, 0.699] * 20)
    (change,) = changes(before, after)
    assert change.difference.significantly_lower
    assert not change.regression
    (strict,) = changes(before, after, min_effect=0.001)
    assert strict.regression


def test_a_drop_that_is_not_significant_is_no_regression():
    (change,) = changes(*two([1.0, 1.0, 0.0], [0.0, 1.0, 0.0]))
    assert change.difference.difference == pytest.approx(-1 / 3)
    assert not change.regression


def test_what_the_selections_fix_tells_the_sides_apart(demo):
    found = changes(
        side("a", demo, only="dense", fixed="configs"),
        side("b", demo, only="window_32", fixed="configs"),
    )
    assert [change.name for change in found] == [
        "tiny-recall / recall_128",
        "tiny-recall / recall_512",
        "tiny-recall / recall_1024",
    ]
    assert all(change.regression for change in found)
    assert short_names(found) == ["recall_128", "recall_512", "recall_1024"]


def test_what_only_one_side_has_is_listed_with_the_reason():
    first, second = Study(), Study()
    first.done("dense", RIGHT)
    first.done("window", RIGHT)
    second.done("dense", RIGHT)
    second.failed("other")
    remarks = {c.config: c.remark for c in changes(side("old", first), side("new", second))}
    assert remarks == {"dense": "", "window": "not in new", "other": "not in old"}


def test_versions_of_a_benchmark_are_not_compared():
    first, second = two(RIGHT, WORSE)
    (cell,) = second.cells
    newer = replace(cell, workload=replace(cell.workload, version="2"))
    records = [replace(record, fingerprint=newer.fingerprint) for record in second.records]
    scores = second.records[0]
    later = replace(second, cells=[newer], records=records, scores=lambda _: second.scores(scores))
    (change,) = changes(first, later)
    assert "versions 1 and 2" in change.remark
    assert change.difference.difference is None
    assert not change.regression


@pytest.mark.parametrize(
    ("after", "max_drop", "verdict"),
    [(SAME, 0.1, "GO"), (WORSE, 0.05, "NO-GO"), (SAME, 0.01, "INCONCLUSIVE"), (WORSE, 0.5, "GO")],
)
def test_the_verdict_follows_the_interval(after, max_drop, verdict):
    rules = policy({"benchmark": "recall*", "max_drop": max_drop})
    judgements = judge(changes(*two(RIGHT, after)), rules)
    assert overall(judgements, rules) == verdict


def test_an_open_verdict_says_how_many_more_samples_would_decide():
    rules = policy({"max_drop": 0.01})
    (one,) = judge(changes(*two(RIGHT, SAME)), rules)
    n = 100 + (one.more_samples or 0)
    assert paired_interval(n / 100, n / 100, n)[0] > -0.01
    assert paired_interval((n - 1) / 100, (n - 1) / 100, n - 1)[0] <= -0.01


def test_a_verdict_that_no_number_of_samples_decides_names_none():
    rules = policy({"max_drop": 0.3})
    (one,) = judge(changes(*two(RIGHT, WORSE)), rules)
    assert (one.verdict, one.more_samples) == ("INCONCLUSIVE", None)


def test_few_equal_samples_are_no_go():
    """Two samples that agree say little about others; 381 exclude a drop of 0.01."""
    rules = policy({"max_drop": 0.01})
    (few,) = judge(changes(*two([1.0, 0.0], [1.0, 0.0])), rules)
    assert (few.verdict, few.more_samples) == ("INCONCLUSIVE", 379)
    (many,) = judge(changes(*two([1.0, 0.0] * 200, [1.0, 0.0] * 200)), rules)
    assert many.verdict == "GO"


def test_equal_scores_beyond_one_have_no_limit():
    rules = policy({"max_drop": 1})
    (one,) = judge(changes(*two([55.0] * 400, [55.0] * 400)), rules)
    assert (one.verdict, one.more_samples) == ("INCONCLUSIVE", None)


def test_a_percentage_without_its_sign_is_refused():
    with pytest.raises(CampaignError, match="write 5% for a percentage"):
        policy({"max_relative_drop": 5})


def test_a_percentage_above_100_is_refused_without_a_second_sign():
    with pytest.raises(CampaignError, match="write 100% at most"):
        policy({"max_relative_drop": "120%"})


def test_a_list_of_names_and_a_boolean_drop_are_refused():
    with pytest.raises(CampaignError) as error:
        policy({"benchmark": ["a", "b"], "max_drop": True})
    keys = [mistake.key for mistake in error.value.mistakes]
    assert keys == ["rules[0].benchmark", "rules[0].max_drop"]
    assert "a rule for each" in str(error.value)


def test_a_suite_of_equal_samples_needs_more_of_each_part():
    """z²/(n + z²) of each of two parts is √½ times that of both; it falls below 0.01 at n = 268."""
    same = {"128": [1.0] * 200, "512": [1.0] * 200}
    core = of_suites(same, same)[-1]
    (one,) = judge([core], policy({"benchmark": "core", "max_drop": 0.01}))
    assert one.verdict == "INCONCLUSIVE"
    assert one.more_samples == pytest.approx(2 * 268 - 400, abs=2)


def test_a_relative_drop_is_a_share_of_the_first_mean():
    rules = policy({"max_relative_drop": "10%"})
    (one,) = judge(changes(*two(RIGHT, WORSE)), rules)
    assert one.margin == pytest.approx(0.09)


@pytest.mark.parametrize(
    ("level", "verdict"),
    [("critical", "NO-GO"), ("supporting", "INCONCLUSIVE"), ("advisory", "GO")],
)
def test_levels_weigh_a_drop(level, verdict):
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


def test_a_critical_rule_without_a_result_is_never_a_go():
    rules = policy({"benchmark": "recal_*", "max_drop": 0.1}, {"benchmark": "*", "max_drop": 0.5})
    compared = changes(*two(RIGHT, RIGHT))
    judgements = judge(compared, rules)
    assert overall(judgements, rules) == "INCONCLUSIVE"
    assert any(
        "did you mean 'recall_512'" in line for line in verdict_lines(compared, judgements, rules)
    )


def test_mistakes_of_a_policy_are_reported_together():
    with pytest.raises(CampaignError) as error:
        policy({"level": "criticl", "max_drop": "x"}, {"benchmark": "a", "drop": 1})
    keys = [mistake.key for mistake in error.value.mistakes]
    assert keys == ["rules[0].level", "rules[0].max_drop", "rules[1].drop", "rules[1]"]
    with pytest.raises(CampaignError, match="rules"):
        read_policy([], file="x")


def test_a_summary_for_a_pull_request_shows_names_as_text():
    first, second = two(RIGHT, WORSE, model="a|b<i>")
    compared = changes(first, second)
    rules = policy({"max_drop": 0.01})
    text = markdown_table(("old|", "new"), compared, judge(compared, rules), rules)
    assert text.startswith("**NO-GO**\n\n| benchmark | old\\| | new |")
    assert "<i>" not in text
    assert "1 regression: recall_512" in text


def suite(*names, mean="macro"):
    parts = tuple(Part(name=name, workloads=(f"recall_{name}",)) for name in names)
    return Suite(name="core", mean=mean, parts=parts)


BOTH = suite("128", "512")


def of_suites(first, second, *, after=BOTH):
    """Both sides with two benchmarks; the changes, the suite's last."""
    studies = Study(), Study()
    for study, values in zip(studies, (first, second), strict=True):
        for subset, some in values.items():
            study.done("dense", some, subset=subset)
    old = side("old", studies[0], suites=[BOTH])
    return changes(old, side("new", studies[1], suites=[after]))


def test_a_suite_is_one_change_with_the_error_of_its_parts():
    *parts, core = of_suites({"128": RIGHT, "512": RIGHT}, {"128": WORSE, "512": SAME})
    assert (core.name, core.is_suite) == ("tiny × dense / suite core", True)
    assert core.difference.difference == pytest.approx(-0.15)
    errors = [change.difference.stderr for change in parts]
    assert core.difference.stderr == pytest.approx(sum(e**2 for e in errors) ** 0.5 / 2)
    assert core.regression
    verdicts = judge([*parts, core], policy({"benchmark": "core", "max_drop": 0.1}))
    assert [(one.change.is_suite, one.verdict) for one in verdicts] == [(True, "INCONCLUSIVE")]
    assert verdicts[0].to_dict()["interval"] == list(core.difference.interval)


@pytest.mark.parametrize(
    ("after", "remark"),
    [
        (suite("128", "512", mean="micro"), "its parts differ and cannot be compared"),
        (suite("128"), "its parts differ and cannot be compared"),
        (suite("128", "512", "1024"), "2 of 3 parts in new"),
    ],
)
def test_a_suite_of_other_parts_is_never_compared(after, remark):
    both = {"128": RIGHT, "512": RIGHT}
    core = of_suites(both, both, after=after)[-1]
    assert (core.remark, core.difference.difference) == (remark, None)
    (judgement,) = judge([core], policy({"benchmark": "core", "max_drop": 1}))
    assert judgement.verdict == "INCONCLUSIVE"


def test_a_suite_over_other_versions_is_never_compared():
    first, second = Study(), Study()
    for study, version in ((first, "1"), (second, "2")):
        study.done("dense", RIGHT, subset="128")
        study.done("dense", RIGHT, subset="512")
        cell = study.cells[-1]
        changed = replace(cell, workload=replace(cell.workload, version=version))
        study.samples[changed.fingerprint] = study.samples[cell.fingerprint]
        study.cells[-1] = changed
        study.records[-1] = replace(study.records[-1], fingerprint=changed.fingerprint)
    one = suite("128", "512")
    core = changes(side("old", first, suites=[one]), side("new", second, suites=[one]))[-1]
    assert core.remark == "versions of recall_512 differ and cannot be compared"


def test_a_suite_with_a_part_of_few_equal_samples_is_no_go():
    """Two equal samples say nothing of the rest of their benchmark, however sure the other is."""
    sure = [0.5 + (n % 2) / 100 for n in range(400)]
    moved = [value + (n % 3) / 1000 for n, value in enumerate(sure)]
    few = of_suites({"128": sure, "512": [1.0] * 2}, {"128": moved, "512": [1.0] * 2})[-1]
    many = of_suites({"128": sure, "512": [1.0] * 400}, {"128": moved, "512": [1.0] * 400})[-1]
    rules = policy({"benchmark": "core", "max_drop": 0.01})
    assert [judge([one], rules)[0].verdict for one in (few, many)] == ["INCONCLUSIVE", "GO"]
    half_of_unseen = 1.96**2 / (2 + 1.96**2) / 2
    difference = few.difference
    assert difference.difference - difference.interval[0] == pytest.approx(half_of_unseen, rel=1e-3)


def test_flips_in_both_directions_are_listed():
    lines = verdict_lines(changes(*two(RIGHT, WORSE)), (), ())
    assert lines[0].startswith("flips of recall_512: right → wrong 0-0, 0-1")
    assert "and 35 more; wrong → right 0-9" in lines[0]


def test_samples_that_only_one_side_has_are_counted():
    compared = changes(*two(RIGHT, RIGHT[:60]))
    line = "recall_512: only 60 samples are shared, of 100 of A and 60 of B"
    assert line in verdict_lines(compared, (), ())
    assert "only 60 samples are shared" in markdown_table(("old", "new"), compared, (), ())
    assert compared[0].to_dict()["samples"] == [100, 60]
    whole = verdict_lines(changes(*two(RIGHT, WORSE)), (), ())
    assert not any("are shared" in text for text in whole)
