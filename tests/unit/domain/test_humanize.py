"""Counts and durations, as people write them."""

import pytest

from benchfleet.domain.humanize import counted, duration, sized


@pytest.mark.parametrize(
    ("count", "verb", "output"),
    [
        (0, "", "0 cells"),
        (1, "", "1 cell"),
        (2, "", "2 cells"),
        (1, "wait", "1 cell waits"),
        (2, "wait", "2 cells wait"),
        (1, "are", "1 cell is"),
        (1, "have", "1 cell has"),
        (1, "go", "1 cell goes"),
        (1, "were", "1 cell was"),
    ],
)
def test_one_is_reported_as_one(count: int, verb: str, output: str) -> None:
    assert counted(count, "cell", verb) == output


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (52, "52 s"),
        (59.7, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_a_duration_is_as_short_as_it_may_be(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (600_000, "600 kB"),
        (999_600, "1.0 MB"),
        (1_240_000, "1.2 MB"),
        (9_960_000, "10 MB"),
        (640_000_000, "640 MB"),
        (999_600_000, "1.0 GB"),
        (31_200_000_000, "31.2 GB"),
    ],
)
def test_a_small_size_is_not_rounded_to_none(size: int, shown: str) -> None:
    assert sized(size) == shown
