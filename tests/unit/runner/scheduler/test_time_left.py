"""How long a slot should still be at its cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchfleet.runner.progress import Running
from benchfleet.runner.resources.slot import Slot
from benchfleet.runner.scheduler.durations import DurationIndex
from benchfleet.runner.scheduler.time_left import seconds_left, signed_seconds_left
from benchfleet.testing import sample_cell

LOAD_S = 30.0


def estimates(seconds: float | None) -> DurationIndex:
    index = SimpleNamespace(
        expected=lambda name, device_type: seconds, load=lambda model, device_type: LOAD_S
    )
    return cast(DurationIndex, index)


def slot(*, stage: str = "benchmark", loads: bool = False, **display: Any) -> Slot:
    """A slot that began its cell at 100 s, and to compute it at 100 s, too."""
    cell = sample_cell(1)
    lease = SimpleNamespace(fingerprint=cell.fingerprint)
    claim = SimpleNamespace(cell=cell, lease=lease)
    attempt = SimpleNamespace(claim=claim, loads=loads, began=100.0)
    shown = Running(slot="a", devices="cpu:0", stage=stage, asked_since=100.0, **display)
    return cast(Slot, SimpleNamespace(attempt=attempt, display=shown, device_type=""))


@pytest.mark.parametrize(("now", "left"), [(101.0, 59), (150.0, 10), (165.0, 5), (260.0, 100)])
def test_a_cell_lasts_as_expected_and_then_may_be_late_by_as_much_again(
    now: float, left: float
) -> None:
    assert seconds_left(slot(), estimates(60.0), now) == left


def test_an_estimate_of_the_time_left_shows_how_late_a_cell_is() -> None:
    assert signed_seconds_left(slot(), estimates(60.0), 260.0) == -100.0


@pytest.mark.parametrize(("loads", "left"), [(True, 80), (False, 50)])
def test_a_model_that_is_not_in_memory_takes_its_load_as_well(loads: bool, left: float) -> None:
    assert seconds_left(slot(stage="load", loads=loads), estimates(60.0), 110.0) == left


def test_what_earlier_attempts_did_takes_no_time_again() -> None:
    resumed = slot(done=75, before=75, total=100)
    assert seconds_left(resumed, estimates(60.0), 105.0) == 10.0


def test_the_samples_of_a_cell_tell_more_than_cells_of_its_like() -> None:
    assert seconds_left(slot(done=20, total=100), estimates(60.0), 140.0) == 160.0


def test_a_cell_of_which_nothing_is_known_takes_what_the_caller_takes_it_for() -> None:
    assert seconds_left(slot(), estimates(None), 110.0) is None
    assert seconds_left(slot(), estimates(None), 110.0, unknown=40.0) == 30.0
    assert seconds_left(slot(), estimates(None), 110.0, unknown=0.0) == 10.0
