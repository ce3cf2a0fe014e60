"""How long a load takes is known before the first cell with the model has ended."""

from __future__ import annotations

import pytest

from benchfleet.engines.base import SlotId
from benchfleet.runner.resources.load_times import LoadTimes

A, B = SlotId("a"), SlotId("b")


@pytest.fixture
def loads() -> LoadTimes:
    return LoadTimes()


def test_nobody_knows_of_what_no_slot_has_loaded(loads: LoadTimes) -> None:
    assert loads.seconds("m", 10.0, usual=0.0) == 0.0
    assert loads.seconds("m", 10.0, usual=7.0) == 7.0


def test_a_load_takes_at_least_as_long_as_the_slot_that_began_it_first_is_at_it(
    loads: LoadTimes,
) -> None:
    loads.begin(A, "m", 1.0)
    loads.begin(B, "m", 8.0)
    assert loads.seconds("m", 10.0, usual=0.0) == 9.0
    assert loads.seconds("m", 10.0, usual=20.0) == 20.0
    assert loads.seconds("n", 10.0, usual=0.0) == 0.0
    loads.drop(A)
    assert loads.seconds("m", 10.0, usual=0.0) == 2.0


def test_what_was_loaded_tells_until_cells_that_ended_do(loads: LoadTimes) -> None:
    loads.begin(A, "m", 1.0)
    loads.end(A, 6.0)
    loads.end(A, 30.0)  # its next cell begins with the model loaded
    assert loads.seconds("m", 40.0, usual=0.0) == 5.0
    assert loads.seconds("m", 40.0, usual=4.0) == 4.0


def test_a_load_that_did_not_end_tells_nothing(loads: LoadTimes) -> None:
    loads.begin(A, "m", 1.0)
    loads.drop(A)
    loads.begin(B, "n", 1.0)
    loads.begin(B, "m", 9.0)
    assert loads.seconds("n", 10.0, usual=0.0) == 0.0
    assert loads.seconds("m", 10.0, usual=0.0) == 1.0
