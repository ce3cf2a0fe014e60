"""The comparison: pooled repeats, the baseline, what is missing."""

from __future__ import annotations

import json
import math

import pytest

from benchfleet.errors import UnknownName
from benchfleet.reports.exports import to_json
from benchfleet.reports.tables import Comparison, Entry

from .conftest import Study, only, present


def entry(
    comparison: Comparison, config: str, *, model: str = "tiny", benchmark: str = "recall_512"
) -> Entry:
    return comparison.entry_at[model, config, benchmark]


def test_repeats_are_pooled_over_all_their_samples(study: Study) -> None:
    study.done("dense", [1, 1, 0, 0], repeat=0)
    study.done("dense", [1, 1], repeat=1)
    found = only(study.compared())
    assert found.mean == pytest.approx(4 / 6)
    assert found.stderr == pytest.approx(math.sqrt((4 / 6) * (2 / 6) / 5))
    assert (found.samples, found.repeats_done, found.repeats_expected) == (6, 2, 2)


def test_differences_pair_a_sample_with_itself_in_the_same_repeat(study: Study) -> None:
    # By repeat and position ours is always 1 higher; pooled in any other way it is not.
    for repeat, level in ((0, 0.0), (1, 10.0)):
        study.done("dense", [level, level + 3], repeat=repeat)
        study.done("window", [level + 1, level + 4.5], repeat=repeat)
    difference = present(entry(study.compared(), "window").difference)
    assert difference.n == 4
    assert difference.difference == pytest.approx(1.25)
    assert difference.stderr == pytest.approx(math.sqrt(0.25 / 3 / 4))


def test_asking_the_same_again_makes_nothing_surer(study: Study) -> None:
    """Ten copies of five answers are five answers; a user found a mock significant by them."""
    for repeat in range(10):
        study.done("dense", [1, 0, 0, 0, 0], repeat=repeat, same=True)
        study.done("window", [0, 0, 0, 0, 0], repeat=repeat, same=True)
    found = present(entry(study.compared(), "window").difference)
    assert found.n == 5
    assert found.difference == pytest.approx(-0.2)
    assert found.stderr == pytest.approx(0.2)


def test_answers_that_vary_over_repeats_of_one_question_are_averaged(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0, same=True)
    study.done("dense", [0, 0], repeat=1, same=True)
    found = only(study.compared())
    assert found.mean == 0.25
    assert found.stderr == pytest.approx(0.25)


def test_the_first_config_is_the_baseline_unless_one_is_without_attention(study: Study) -> None:
    study.done("window", [1, 0])
    study.done("sink", [1, 0])
    assert study.compared().baseline == "window"
    study.done("dense", [1, 0])
    assert study.compared().baseline == "dense"


def test_the_baseline_can_be_named(study: Study) -> None:
    study.done("dense", [1, 1])
    study.done("window", [0, 1])
    found = study.compared("window")
    assert found.baseline == "window"
    assert present(entry(found, "dense").difference).difference == 0.5


def test_an_unknown_baseline_is_refused_with_the_near_name(study: Study) -> None:
    study.done("window_32", [1, 0])
    with pytest.raises(UnknownName, match="did you mean 'window_32'"):
        study.compared("window_23")
    with pytest.raises(UnknownName, match="there is window_32"):
        study.compared("quantised")


def test_missing_cells_stay_visible_with_their_state(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0)
    study.failed("dense", repeat=1)
    study.cell("window", repeat=0)
    study.record(study.cell("window", repeat=1), "running")
    found = study.compared()
    assert entry(found, "dense").states == {"success": 1, "failed": 1}
    assert entry(found, "dense").mean == 0.5
    assert entry(found, "window").states == {"pending": 1, "running": 1}
    assert entry(found, "window").mean is None
    assert entry(found, "window").difference is None
    assert (found.counts["total"], found.counts["pending"], found.counts["failed"]) == (4, 1, 1)


def test_samples_of_a_partial_cell_are_not_scored(study: Study) -> None:
    study.done("dense", [1, 1], repeat=0)
    study.failed("dense", state="partial", repeat=1)
    assert entry(study.compared(), "dense").samples == 2


def test_records_of_other_cells_are_passed_over(study: Study) -> None:
    study.done("dense", [1, 0])
    study.done("window", [1, 0])
    study.cells.pop()
    assert study.compared().counts["total"] == 1
    assert study.compared().configs == ("dense",)


def test_a_cell_reported_twice_counts_once(study: Study) -> None:
    study.done("dense", [1, 0])
    study.cells *= 2
    assert study.compared().counts["total"] == 1


def test_two_workloads_of_one_name_are_two_columns(study: Study) -> None:
    study.done("dense", [1, 0], params={"records": 8})
    study.done("dense", [0, 0], params={"records": 16})
    first, second = study.compared().benchmarks
    assert first == "recall_512"
    assert second.startswith("recall_512@")
    assert [e.mean for e in study.compared().entries] == [0.5, 0.0]


def test_a_headline_that_is_no_mean_counts_once_for_each_repeat(study: Study) -> None:
    for repeat, (dense, window) in enumerate([(50.0, 40.0), (60.0, 52.0), (70.0, 61.0)]):
        study.done("dense", [1, 0], headline=dense, repeat=repeat)
        study.done("window", [1, 0], headline=window, repeat=repeat)
    found = study.compared()
    assert entry(found, "dense").mean == 60
    assert entry(found, "dense").stderr == pytest.approx(10 / math.sqrt(3))
    assert present(entry(found, "window").difference).n == 3
    assert present(entry(found, "window").difference).difference == pytest.approx(-9)
    assert "not the mean of its samples" in found.notes[0]


def test_one_odd_headline_makes_all_configs_of_the_benchmark_count_by_headline(
    study: Study,
) -> None:
    study.done("dense", [1, 0])
    study.done("window", [], headline=0.25)
    found = study.compared()
    assert entry(found, "dense").stderr is None
    assert present(entry(found, "window").difference).difference == -0.25
    assert present(entry(found, "window").difference).n == 1


def test_density_and_speed_weigh_cells_by_what_they_did(study: Study) -> None:
    study.done(
        "dense", [1] * 3, repeat=0, metrics={"density": 0.2, "completion_tokens": 30, "seconds": 1}
    )
    study.done(
        "dense", [1], repeat=1, metrics={"density": 0.6, "completion_tokens": 10, "seconds": 3}
    )
    found = only(study.compared())
    assert found.density == pytest.approx(0.3)
    assert found.tokens_per_second == pytest.approx(10)


def test_what_was_not_measured_is_unknown(study: Study) -> None:
    study.done("dense", [1, 0])
    assert only(study.compared()).density is None
    assert only(study.compared()).tokens_per_second is None


def test_holm_counts_every_difference_of_the_report(study: Study) -> None:
    ours, base = [1, 1, 1, 1, 1, 0.5], [0, 0, 0, 0.5, 0.4, 0.8]
    for subset in ("128", "512", "1024"):
        study.done("dense", base, subset=subset)
        study.done("window", ours, subset=subset)
    found = present(entry(study.compared(), "window").difference)
    p_value = present(found.p_value)
    assert p_value < 0.05
    assert found.adjusted_p == pytest.approx(3 * p_value)
    assert not found.sure


def test_time_is_summed_by_model_and_config(study: Study) -> None:
    study.done("dense", [1, 0], repeat=0)
    study.done("dense", [1, 0], repeat=1)
    study.failed("window")
    study.cell("sink")
    dense, window = study.compared().time
    assert (dense.config, dense.seconds) == ("dense", {"load": 2.0, "benchmark": 8.0})
    assert (window.config, window.seconds) == ("window", {"load": 2.0})


def test_the_comparison_is_json_without_loss(demo: Study) -> None:
    demo.failed("window_32", subset="128", repeat=2, message="out of memory")
    text = to_json(demo.compared(), title="study")
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["winners"][0]["config"] == "dense"
    assert found["entries"][1]["difference"]["sure"] is True
    assert found["failures"][0]["cells"] == ["tiny/window_32/recall_128/r2"]
    assert found["time"][0]["seconds"] == {"load": 6.0, "benchmark": 24.0}


def test_a_single_headline_has_the_error_of_the_bootstrap(study: Study) -> None:
    reported = {"bootstrap_stderr": 0.04, "bootstrap_low": 0.3, "bootstrap_high": 0.5}
    study.done("dense", [], headline=0.4, reported=reported)
    study.done("sink", [], headline=0.4)
    dense, sink = study.compared().entries
    assert (dense.mean, dense.stderr) == (0.4, 0.04)
    assert sink.stderr is None


def test_configs_with_settings_of_their_own_are_compared_on_the_same_samples(study: Study) -> None:
    study.done("dense", [1, 0, 1, 1, 0, 1], same=True)
    study.done("window", [0, 0, 1, 0, 0, 1], same=True, generation={"max_new_tokens": 128})
    comparison = study.compared()
    assert comparison.benchmarks == ("recall_512",)
    (difference,) = [entry.difference for entry in comparison.entries if entry.difference]
    assert difference.n == 6
    assert difference.difference == pytest.approx(-1 / 3)


def test_a_benchmark_that_is_declared_twice_has_a_column_for_each_setting(study: Study) -> None:
    for config in ("dense", "window"):
        study.done(config, [1, 0, 1])
        study.done(config, [1, 1, 1], generation={"temperature": 1.0})
    first, second = study.compared().benchmarks
    assert first == "recall_512"
    assert second.startswith("recall_512@")
