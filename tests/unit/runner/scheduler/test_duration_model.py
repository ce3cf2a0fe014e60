"""How long cells should take is learned from those that ended, and from the nearest of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.runner.scheduler.duration_model import DurationModel
from benchfleet.testing.sample_cells import sample_cell


def ended(
    cell: Cell, benchmark: float, load: float = 0.0, device: str = "", **named: Any
) -> tuple[Cell, Outcome]:
    seconds = {"load": load, "benchmark": benchmark}
    return cell, Outcome(state="success", seconds=seconds, device_type=device, **named)


def expectation(model: DurationModel, cell: Cell, device: str = "") -> tuple[float, str, int]:
    found = model.expected(cell, device)
    assert found is not None
    return found.seconds, found.like, found.cells


def test_a_repeat_takes_what_the_others_took() -> None:
    times = enumerate((3.0, 9.0, 4.0))
    model = DurationModel(ended(sample_cell(repeat=repeat), seconds) for repeat, seconds in times)
    assert expectation(model, sample_cell(repeat=7)) == (4.0, "same cell", 3)


def test_the_same_type_of_device_tells_before_any_other() -> None:
    model = DurationModel(
        [ended(sample_cell(), 2.0, device="NVIDIA H100"), ended(sample_cell(), 60.0, device="cpu")]
    )
    assert expectation(model, sample_cell(), "NVIDIA H100")[0] == 2.0
    assert expectation(model, sample_cell(), "cpu")[0] == 60.0
    assert expectation(model, sample_cell(), "NVIDIA L4") == (31.0, "same cell", 2)


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (0, (1.0, "same cell", 1)),
        (1, (2.0, "same model", 1)),
        (2, (3.0, "same model", 1)),
        (3, (4.0, "another model", 1)),
    ],
)
def test_the_nearest_that_is_known_tells(left_out: int, expected: tuple[float, str, int]) -> None:
    asked = sample_cell(subset="a")
    known = [
        ended(asked, 1.0),
        ended(sample_cell(subset="b"), 2.0),
        ended(sample_cell(subset="a", config="sink"), 3.0),
        ended(sample_cell(subset="a", model="other"), 4.0),
    ]
    only = DurationModel(known[left_out : left_out + 1])
    assert expectation(only, asked) == expected
    assert expectation(DurationModel(known[left_out:]), asked)[1] == expected[1]


@pytest.mark.parametrize(
    "other",
    [
        sample_cell(number=1),
        sample_cell(limit=5),
        replace(sample_cell(), workload=replace(sample_cell().workload, params={"samples": 200})),
    ],
)
def test_of_another_benchmark_nothing_is_known(other: Cell) -> None:
    assert DurationModel([ended(sample_cell(), 2.0)]).expected(other) is None


def test_a_trial_over_few_samples_predicts_one_over_more() -> None:
    model = DurationModel([ended(sample_cell(limit=5), 2.0)])
    assert expectation(model, sample_cell(limit=20)) == (8.0, "same cell", 1)
    assert model.expected(sample_cell()) is None


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ({"params": {"samples": 200}}, 8.0),
        ({"limit": 25}, 1.0),
        ({"samples_per_question": 4}, 16.0),
    ],
)
def test_more_samples_or_answers_take_longer_in_proportion(
    change: dict[str, Any], seconds: float
) -> None:
    known, asked = (
        replace(sample_cell(), workload=replace(sample_cell().workload, **{**own, **more}))
        for own, more in (
            ({"params": {"samples": 100}}, {}),
            ({"params": {"samples": 100}}, change),
        )
    )
    assert expectation(DurationModel([ended(known, 4.0)]), asked) == (seconds, "same cell", 1)


def test_devices_are_compared_by_the_cells_that_are_most_alike() -> None:
    other = sample_cell(subset="b")
    model = DurationModel([ended(sample_cell(subset="a"), 2.0, device="L4"), ended(other, 5.0)])
    assert model.slowdown("H100", "L4") is None
    model.learn(*ended(sample_cell(subset="a", config="sink"), 1.0, device="H100"))
    assert model.slowdown("H100", "L4") == 0.5  # the same benchmark with another config
    for takes in (0.4, 0.6):
        model.learn(*ended(sample_cell(subset="a", repeat=int(10 * takes)), takes, device="H100"))
    assert model.slowdown("H100", "L4") == 0.25  # the same cell


def test_two_models_do_not_compare_the_devices_that_they_ran_on() -> None:
    """A served model that takes 20 s and a small one here that takes 0.2 s."""
    served = ended(sample_cell(model="large"), 20.0, device="endpoint")
    model = DurationModel([served, ended(sample_cell(model="small"), 0.2, device="cpu")])
    assert model.slowdown("endpoint", "cpu") is None


def test_what_ran_on_one_type_of_device_alone_does_not_tell_how_fast_others_are() -> None:
    model = DurationModel(
        ended(sample_cell(subset=f"{number}"), 200.0 if number == 4 else 10.0, device=device)
        for number, device in enumerate(("H100",) * 4 + ("L4",))
    )
    assert model.slowdown("L4", "") == 20  # than any
    assert DurationModel([ended(sample_cell(), 200.0, device="L4")]).slowdown("L4", "") is None


def test_of_what_is_as_near_the_same_type_of_device_tells_first() -> None:
    times = {"L4": 9.0, "H100": 1.0, "": 5.0}
    model = DurationModel(ended(sample_cell(subset=d), s, device=d) for d, s in times.items())
    asked = sample_cell(subset="x")
    assert expectation(model, asked, "H100") == (1.0, "same model", 1)
    assert expectation(model, asked, "GH200") == (5.0, "same model", 3)


@pytest.mark.parametrize("told_of", [{"resumed": 90}, {"state": "failed"}])
def test_what_failed_or_went_on_after_earlier_samples_tells_nothing(
    told_of: dict[str, Any],
) -> None:
    cell, outcome = ended(sample_cell(), 2.0)
    assert DurationModel([(cell, replace(outcome, **told_of))]).expected(cell) is None


def test_a_model_loads_as_long_as_it_did_whenever_it_was_loaded() -> None:
    cells = [(sample_cell(repeat=place), load) for place, load in enumerate((0.0, 8.0, 10.0, 30.0))]
    model = DurationModel(ended(cell, 1.0, load, "cpu") for cell, load in cells)
    assert model.load("tiny") == model.load("tiny", "cpu") == model.load("tiny", "gpu") == 10
    assert model.load("other") == 0.0


def test_the_error_is_what_cells_missed_their_expected_time_by() -> None:
    cell = sample_cell()
    assert DurationModel().error(1) == pytest.approx(0.5 * 2**0.5)
    assert DurationModel([ended(cell, 8.0)] * 9).error(1) == 0.0
    apart = DurationModel([ended(cell, 8.0)] * 99 + [ended(cell, 16.0), ended(cell, 8.0)] * 50)
    assert apart.error(1) == pytest.approx(1.0, abs=0.01)
    assert apart.error(99) == pytest.approx((2 / 99) ** 0.5)


def test_only_an_estimate_that_moved_is_reported() -> None:
    model = DurationModel([ended(sample_cell(), 100.0)])
    assert model.learn(*ended(sample_cell(), 101.0)) == []
    assert len(model.learn(*ended(sample_cell(), 300.0))) == 0  # the median stays
    assert len(model.learn(*ended(sample_cell(), 300.0))) == 3


def test_old_times_are_forgotten_where_there_are_many() -> None:
    model = DurationModel([ended(sample_cell(), 1.0)] * 99)
    for _ in range(99):
        model.learn(*ended(sample_cell(), 5.0))
    assert expectation(model, sample_cell()) == (5.0, "same cell", 99)
