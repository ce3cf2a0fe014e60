"""Which config leads, and which are surely behind it."""

from __future__ import annotations

import random

import pytest

from .conftest import Study, present

HIGH = [1.0] * 38 + [0.0] * 2
LOW = [1.0] * 5 + [0.0] * 35


def test_a_leader_other_than_the_baseline_is_compared_with_the_rest_too(study: Study) -> None:
    study.done("dense", LOW)
    study.done("good", HIGH)
    study.done("alike", [1.0] * 37 + [0.0] * 3)
    study.done("poor", list(reversed(LOW)))
    (winner,) = study.compared().winners
    assert winner.config == "good"
    assert winner.better_than == ("dense", "poor")
    assert winner.not_different_from == ("alike",)


def test_of_equal_means_the_baseline_leads(study: Study) -> None:
    study.done("window", [1, 0])
    study.done("dense", [0, 1])
    (winner,) = study.compared().winners
    assert winner.config == "dense"
    assert winner.not_different_from == ("window",)


def test_without_a_baseline_result_the_leader_is_still_judged(study: Study) -> None:
    study.failed("dense")
    study.done("good", HIGH)
    study.done("poor", LOW)
    (winner,) = study.compared().winners
    assert (winner.config, winner.better_than) == ("good", ("poor",))
    assert winner.without_result == ("dense",)


def test_the_leader_is_found_on_the_samples_that_all_have(study: Study) -> None:
    # The second repeat is easier, and only the window has it.
    study.done("dense", [0.5] * 10, repeat=0)
    study.done("window", [0.4] * 10, repeat=0)
    study.done("window", [1.0] * 10, repeat=1)
    (winner,) = study.compared().winners
    assert (winner.config, winner.better_than) == ("dense", ("window",))


def test_a_headline_that_is_no_merit_is_shown_and_not_ranked(study: Study) -> None:
    """Such as the tokens per second of an open loop, which follow the rate that was asked for."""
    study.done("dense", [], headline=400.0, reported={"ranked": False})
    study.done("window", [], headline=900.0, reported={"ranked": False})
    comparison = study.compared()
    assert (comparison.winners, comparison.best, comparison.pairs) == ((), (), ())
    assert [(entry.mean, entry.difference) for entry in comparison.entries] == [
        (400.0, None),
        (900.0, None),
    ]


def test_a_benchmark_without_any_result_has_no_winner(study: Study) -> None:
    study.cell("dense", subset="128")
    study.done("dense", [1, 0], subset="512")
    (winner,) = study.compared().winners
    assert (winner.benchmark, winner.config) == ("recall_512", "dense")


def test_each_model_has_its_own_winner(study: Study) -> None:
    study.done("dense", HIGH, model="a")
    study.done("window", LOW, model="a")
    study.done("dense", LOW, model="b")
    study.done("window", HIGH, model="b")
    assert [(w.model, w.config) for w in study.compared().winners] == [
        ("a", "dense"),
        ("b", "window"),
    ]


@pytest.mark.slow
def test_equal_configs_seldom_differ_significantly() -> None:
    """Of reports on configs that do not differ, 5 % may call some difference sure: once among
    those to the baseline, and once among the others. Uncorrected it would be about 20 %."""
    rng = random.Random(3)
    to_baseline = to_leader = 0
    for _ in range(200):
        study = Study()
        for config in ("dense", "a", "b", "c", "d", "e"):
            study.done(config, [rng.gauss(0, 1) for _ in range(12)])
        comparison = study.compared()
        (winner,) = comparison.winners
        to_baseline += any(e.difference and e.difference.sure for e in comparison.entries)
        to_leader += winner.config != "dense" and bool(set(winner.better_than) - {"dense"})
    assert to_baseline <= 16
    assert to_leader <= 16


@pytest.mark.parametrize("repeats", [2, 10])
def test_equal_headlines_without_their_samples_have_no_known_error(
    study: Study, repeats: int
) -> None:
    for repeat in range(repeats):
        study.done("dense", [], headline=0.5, repeat=repeat)
        study.done("window", [], headline=0.4, repeat=repeat)
    comparison = study.compared()
    assert [entry.stderr for entry in comparison.entries] == [None, None]
    difference = present(comparison.entries[1].difference)
    assert difference.difference == pytest.approx(-0.1)
    assert (difference.stderr, difference.p_value, difference.interval) == (None, None, None)


def test_unequal_headlines_without_their_samples_are_values(study: Study) -> None:
    for repeat, headline in enumerate((0.4, 0.6)):
        study.done("dense", [], headline=headline, repeat=repeat)
    assert study.compared().entries[0].stderr == pytest.approx(0.1)


def test_a_config_with_few_samples_does_not_reduce_the_others_to_these(study: Study) -> None:
    """It was behind on all of its samples, which are by chance the best of `alike`."""
    study.done("dense", [1.0] * 8 + [0.0] * 2)
    study.done("alike", [1.0] * 9 + [0.0])
    study.done("stopped", [0.0] * 10)
    study.done("dense", [1.0] * 10, repeat=1)
    study.done("alike", [0.0] * 4 + [1.0] * 6, repeat=1)
    comparison = study.compared()
    assert (comparison.winners[0].config, comparison.best[0].config) == ("dense", "dense")


def test_a_config_that_is_ahead_on_its_few_samples_leads(study: Study) -> None:
    study.done("dense", [1.0, 0.0] * 5)
    study.done("dense", [1.0] * 10, repeat=1)
    study.done("short", [1.0, 1.0] * 4 + [1.0, 0.0])
    assert study.compared().winners[0].config == "short"


def test_a_config_without_shared_samples_ranks_by_its_own_mean(study: Study) -> None:
    study.done("dense", [1.0, 0.0] * 5)
    study.done("other", [1.0] * 4, repeat=1)
    assert study.compared().winners[0].config == "other"
