"""Two sets of results side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.cli.text.change_table import markdown_table, short_names, verdict_lines
from benchfleet.domain.suite import Suite
from benchfleet.reports.release_policy import judge
from benchfleet.reports.side_by_side import changes

from .conftest import Study, present
from .two_sides import RIGHT, SAME, WORSE, of_suites, policy, side, suite, two


def test_a_significant_drop_is_a_regression_and_names_its_samples() -> None:
    (change,) = changes(*two(RIGHT, WORSE))
    assert change.name == "tiny × dense / recall_512"
    assert change.difference.difference == pytest.approx(-0.3)
    assert change.regression
    assert len(change.lost) == 40
    assert len(change.gained) == 10
    assert change.lost[0] == "0-0"


def test_a_repeat_that_has_only_a_headline_is_no_flipped_sample() -> None:
    before, after = Study(), Study()
    for repeat in range(3):
        before.done("dense", [], headline=0.0, repeat=repeat)
        after.done("dense", [], headline=1.0, repeat=repeat)
    (change,) = changes(side("old", before), side("new", after))
    assert change.difference.difference == 1.0
    assert change.gained == ()


def test_a_drop_below_the_minimum_effect_is_no_regression() -> None:
    before, after = two([0.5, 0.6, 0.7] * 20, [0.499, 0.598, 0.699] * 20)
    (change,) = changes(before, after)
    assert change.difference.significantly_lower
    assert not change.regression
    (strict,) = changes(before, after, min_effect=0.001)
    assert strict.regression


def test_a_drop_that_is_not_significant_is_no_regression() -> None:
    (change,) = changes(*two([1.0, 1.0, 0.0], [0.0, 1.0, 0.0]))
    assert change.difference.difference == pytest.approx(-1 / 3)
    assert not change.regression


def test_what_the_selections_fix_tells_the_sides_apart(demo: Study) -> None:
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


def test_what_only_one_side_has_is_listed_with_the_reason() -> None:
    first, second = Study(), Study()
    first.done("dense", RIGHT)
    first.done("window", RIGHT)
    second.done("dense", RIGHT)
    second.failed("other")
    remarks = {c.config: c.remark for c in changes(side("old", first), side("new", second))}
    assert remarks == {"dense": "", "window": "not in new", "other": "not in old"}


def test_a_speed_that_its_client_limited_is_shown_and_not_compared() -> None:
    first, second = Study(), Study()
    first.done("dense", RIGHT)
    second.done("dense", WORSE, reported={"ranked": False})
    (change,) = changes(side("old", first), side("new", second))
    assert change.remark.startswith("not ranked in new: its client was the bottleneck")
    assert change.after is not None
    assert (change.difference.difference, change.regression) == (None, False)


def test_versions_of_a_benchmark_are_not_compared() -> None:
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


def test_a_suite_is_one_change_with_the_error_of_its_parts() -> None:
    *parts, core = of_suites({"128": RIGHT, "512": RIGHT}, {"128": WORSE, "512": SAME})
    assert (core.name, core.is_suite) == ("tiny × dense / suite core", True)
    assert core.difference.difference == pytest.approx(-0.15)
    errors = [present(change.difference.stderr) for change in parts]
    assert core.difference.stderr == pytest.approx(sum(e**2 for e in errors) ** 0.5 / 2)
    assert core.regression
    verdicts = judge([*parts, core], policy({"benchmark": "core", "max_drop": 0.1}))
    assert [(one.change.is_suite, one.verdict) for one in verdicts] == [(True, "INCONCLUSIVE")]
    assert verdicts[0].to_dict()["interval"] == list(present(core.difference.interval))


@pytest.mark.parametrize(
    ("after", "remark"),
    [
        (suite("128", "512", mean="micro"), "its parts differ and cannot be compared"),
        (suite("128"), "its parts differ and cannot be compared"),
        (suite("128", "512", "1024"), "2 of 3 parts in new"),
    ],
)
def test_a_suite_of_other_parts_is_never_compared(after: Suite, remark: str) -> None:
    both = {"128": RIGHT, "512": RIGHT}
    core = of_suites(both, both, after=after)[-1]
    assert (core.remark, core.difference.difference) == (remark, None)
    (judgement,) = judge([core], policy({"benchmark": "core", "max_drop": 1}))
    assert judgement.verdict == "INCONCLUSIVE"


def test_a_suite_over_other_versions_is_never_compared() -> None:
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


def test_flips_in_both_directions_are_listed() -> None:
    lines = verdict_lines(changes(*two(RIGHT, WORSE)), (), ())
    assert lines[0].startswith("flips of recall_512: right → wrong 0-0, 0-1")
    assert "and 35 more; wrong → right 0-9" in lines[0]


def test_samples_that_only_one_side_has_are_counted() -> None:
    compared = changes(*two(RIGHT, RIGHT[:60]))
    line = "recall_512: only 60 samples are shared, of 100 of A and 60 of B"
    assert line in verdict_lines(compared, (), ())
    assert "only 60 samples are shared" in markdown_table(("old", "new"), compared, (), ())
    assert compared[0].to_dict()["samples"] == [100, 60]
    whole = verdict_lines(changes(*two(RIGHT, WORSE)), (), ())
    assert not any("are shared" in text for text in whole)


def test_small_differences_of_scores_above_one_keep_their_digits() -> None:
    compared = changes(*two([1.05, 1.15] * 20, [1.01, 1.11] * 20))
    assert "−0.04" in markdown_table(("old", "new"), compared, (), ())
