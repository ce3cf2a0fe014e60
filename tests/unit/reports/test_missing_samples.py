"""What a report says of others while the samples of one result are missing or changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.suite import Part, Suite
from benchfleet.reports.side_by_side import changes
from benchfleet.reports.tables import Comparison, Entry, compare
from benchfleet.reports.verdicts import sentences
from benchfleet.results.read import SampleScores

from .conftest import Study, present
from .two_sides import side

HALF = [1.0, 0.0] * 40
BETTER = [1.0, 1.0, 1.0, 0.0] * 20
SUITE = Suite(name="core", mean="macro", parts=(Part(name="p", workloads=("recall_512",)),))


def of(comparison: Comparison) -> dict[str, Entry]:
    return {entry.config: entry for entry in comparison.entries}


def damaged(study: Study, config: str, repeat: int = 0) -> None:
    """Lose the samples of one result."""
    for cell in study.cells:
        if (cell.config.name, cell.repeat) == (config, repeat):
            study.samples[cell.fingerprint] = {}


@pytest.fixture
def three(study: Study) -> Study:
    for repeat in (0, 1):
        study.done("dense", HALF, repeat=repeat)
        study.done("window", BETTER, repeat=repeat)
        study.done("sink", [1.0, 1.0, 1.0, 0.0, 0.0] * 16, repeat=repeat)
    return study


def test_intact_results_keep_their_errors_and_their_comparison(three: Study) -> None:
    before = of(three.compared())
    damaged(three, "sink", 0)
    damaged(three, "sink", 1)
    after = of(three.compared())
    for config in ("dense", "window"):
        assert after[config].mean == before[config].mean
        assert after[config].stderr == before[config].stderr
    assert present(after["window"].difference).difference == pytest.approx(0.25)
    assert present(after["window"].difference).n == 160
    assert after["sink"].mean == before["sink"].mean
    assert (after["sink"].stderr, present(after["sink"].difference).difference) == (None, None)
    (note,) = [note for note in three.compared().notes if "samples" in note]
    assert "do not count: tiny / sink / recall_512. A result" in note


def test_a_damaged_repeat_does_not_count_and_the_other_does(three: Study) -> None:
    three.samples[three.cells[2].fingerprint] = {f"0-{n}": 1.0 for n in range(80)}
    three.records[2] = replace(
        three.records[2],
        outcome=replace(
            present(three.records[2].outcome), metrics={"overall_score": 1.0, "samples": 80}
        ),
    )
    assert of(three.compared())["sink"].mean == 0.8
    damaged(three, "sink", 0)
    entry = of(three.compared())["sink"]
    assert entry.mean == 0.6
    assert present(entry.difference).n == 80


def test_where_no_result_has_samples_each_repeat_is_a_value(three: Study) -> None:
    for config in ("dense", "window", "sink"):
        for repeat in (0, 1):
            damaged(three, config, repeat)
    compared = three.compared()
    assert present(of(compared)["window"].difference).n == 2
    assert any("each repeat counts as one value: recall_512" in one for one in compared.notes)


def test_nothing_is_best_that_was_not_compared_with_all(three: Study) -> None:
    """Not of the suite either, whose test would use the headlines."""
    damaged(three, "sink", 0)
    damaged(three, "sink", 1)
    compared = compare(
        three.records,
        three.cells,
        lambda record: SampleScores(scores=three.samples[record.fingerprint]),
        suites=[SUITE],
    )
    shown = sentences(compared, str)
    assert len(shown) == 2
    for one in shown:
        assert "window has the highest mean, 0.75" in one
        assert "significantly higher than dense" in one
        assert "is best" not in one
    assert "compare with sink" in shown[1]


def test_a_lead_over_shared_samples_is_not_called_the_highest_mean(study: Study) -> None:
    study.done("dense", HALF)
    study.done("window", [1.0, 0.0, 0.0, 0.0] * 20)
    study.done("window", [1.0] * 80, repeat=1)
    compared = study.compared()
    assert (of(compared)["dense"].mean, of(compared)["window"].mean) == (0.5, 0.625)
    (sentence,) = sentences(compared, str)
    assert (
        "dense leads on shared samples, 0.500 ± 0.056; significantly higher than window" in sentence
    )
    assert compared.winners[0].leads_on_shared
    study.done("dense", [1.0] * 80, repeat=1)
    (sentence,) = sentences(study.compared(), str)
    assert "dense is best, 0.750" in sentence


def test_two_sides_name_what_is_missing_at_the_damaged_result_alone(three: Study) -> None:
    other = Study()
    for repeat in (0, 1):
        for config in ("dense", "window", "sink"):
            other.done(config, HALF, repeat=repeat)
    damaged(three, "sink", 0)
    damaged(three, "sink", 1)
    changed = {one.config: one for one in changes(side("old", three), side("new", other))}
    remarks = {config: one.remark for config, one in changed.items()}
    assert remarks == {"dense": "", "window": "", "sink": "samples are missing"}
    assert [config for config, one in changed.items() if one.lacks_samples] == ["sink"]
