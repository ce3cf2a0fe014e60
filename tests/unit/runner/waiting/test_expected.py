"""How long cells should take is learned from those that ended, and from the nearest of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.runner.waiting.expected import History
from benchfleet.testing.samples import sample_cell


def ended(
    cell: Cell, benchmark: float, load: float = 0.0, device: str = "", **named: Any
) -> tuple[Cell, Outcome]:
    seconds = {"load": load, "benchmark": benchmark}
    return cell, Outcome(state="success", seconds=seconds, device_type=device, **named)


def told(history: History, cell: Cell, device: str = "") -> tuple[float, str, int]:
    found = history.of(cell, device)
    assert found is not None
    return found.seconds, found.like, found.cells


def test_a_repeat_takes_what_the_others_took() -> None:
    times = enumerate((3.0, 9.0, 4.0))
    history = History(ended(sample_cell(repeat=repeat), seconds) for repeat, seconds in times)
    assert told(history, sample_cell(repeat=7)) == (4.0, "same config and subset", 3)


def test_the_same_type_of_device_tells_before_any_other() -> None:
    history = History(
        [ended(sample_cell(), 2.0, device="NVIDIA H100"), ended(sample_cell(), 60.0, device="cpu")]
    )
    assert told(history, sample_cell(), "NVIDIA H100")[0] == 2.0
    assert told(history, sample_cell(), "cpu")[0] == 60.0
    assert told(history, sample_cell(), "NVIDIA L4") == (31.0, "same config and subset", 2)


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        (0, (1.0, "same config and subset", 1)),
        (1, (2.0, "same config", 1)),
        (2, (3.0, "same benchmark", 1)),
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
    only = History(known[left_out : left_out + 1])
    assert told(only, asked) == expected
    assert told(History(known[left_out:]), asked)[1] == expected[1]


@pytest.mark.parametrize(
    "other",
    [
        sample_cell(number=1),
        sample_cell(limit=5),
        replace(sample_cell(), workload=replace(sample_cell().workload, params={"samples": 200})),
    ],
)
def test_of_another_benchmark_nothing_is_known(other: Cell) -> None:
    assert History([ended(sample_cell(), 2.0)]).of(other) is None


def test_a_trial_over_few_samples_tells_of_one_over_more() -> None:
    history = History([ended(sample_cell(limit=5), 2.0)])
    assert told(history, sample_cell(limit=20)) == (8.0, "same config", 1)
    assert history.of(sample_cell()) is None


def test_a_type_of_device_is_as_fast_as_what_is_most_alike_says() -> None:
    other = sample_cell(subset="b")
    history = History([ended(sample_cell(subset="a"), 2.0, device="L4"), ended(other, 5.0)])
    assert history.pace("H100", "L4") is None
    history.learn(*ended(sample_cell(subset="a", config="sink"), 1.0, device="H100"))
    pace = history.pace("H100", "L4")  # the same benchmark with another config
    assert pace is not None
    assert pace.factor == 0.5
    assert pace.spread == pytest.approx(0.5**0.5)  # one cell alone on each
    for takes in (0.4, 0.6):
        history.learn(*ended(sample_cell(subset="a", repeat=int(10 * takes)), takes, device="H100"))
    pace = history.pace("H100", "L4")  # the same cell
    assert pace is not None
    assert pace.factor == 0.25


def test_what_ran_on_one_type_of_device_alone_does_not_tell_how_fast_others_are() -> None:
    history = History(
        ended(sample_cell(subset=f"{number}"), 200.0 if number == 4 else 10.0, device=device)
        for number, device in enumerate(("H100",) * 4 + ("L4",))
    )
    pace = history.pace("L4", "")  # than any
    assert pace is not None
    assert pace.factor == 20
    assert History([ended(sample_cell(), 200.0, device="L4")]).pace("L4", "") is None


def test_of_what_is_as_near_the_same_type_of_device_tells_first() -> None:
    times = {"L4": 9.0, "H100": 1.0, "": 5.0}
    history = History(ended(sample_cell(subset=d), s, device=d) for d, s in times.items())
    asked = sample_cell(subset="x")
    assert told(history, asked, "H100") == (1.0, "same config", 1)
    assert told(history, asked, "GH200") == (5.0, "same config", 3)


def test_what_went_on_after_earlier_samples_tells_nothing_of_a_whole_cell() -> None:
    assert History([ended(sample_cell(), 2.0, resumed=90)]).of(sample_cell()) is None


def test_what_failed_tells_nothing() -> None:
    failed = replace(ended(sample_cell(), 2.0)[1], state="failed")
    assert History([(sample_cell(), failed)]).of(sample_cell()) is None


def test_a_model_loads_as_long_as_it_did_whenever_it_was_loaded() -> None:
    cells = [(sample_cell(repeat=place), load) for place, load in enumerate((0.0, 8.0, 10.0, 30.0))]
    history = History(ended(cell, 1.0, load, "cpu") for cell, load in cells)
    assert history.load("tiny") == history.load("tiny", "cpu") == history.load("tiny", "gpu") == 10
    assert history.load("other") == 0.0


def test_the_spread_is_that_of_the_cells_or_half_of_one_alone() -> None:
    cell = sample_cell()
    alone, equal = History([ended(cell, 8.0)]).of(cell), History([ended(cell, 8.0)] * 9).of(cell)
    apart = History([ended(cell, float(n)) for n in range(2, 100)]).of(cell)
    assert alone is not None
    assert equal is not None
    assert apart is not None
    assert (alone.spread, equal.spread) == (4.0, 0.0)
    assert 25 < apart.spread < 40


def test_only_an_estimate_that_moved_is_told_of() -> None:
    history = History([ended(sample_cell(), 100.0)])
    assert history.learn(*ended(sample_cell(), 101.0)) == []
    assert len(history.learn(*ended(sample_cell(), 300.0))) == 0  # the median stays
    assert len(history.learn(*ended(sample_cell(), 300.0))) == 8


def test_old_times_are_forgotten_where_there_are_many() -> None:
    history = History([ended(sample_cell(), 1.0)] * 999)
    for _ in range(999):
        history.learn(*ended(sample_cell(), 5.0))
    assert told(history, sample_cell()) == (5.0, "same config and subset", 999)
