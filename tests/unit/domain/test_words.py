"""How many there are of something."""

import pytest

from benchfleet.domain.words import counted


@pytest.mark.parametrize(
    ("count", "verb", "told"),
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
def test_one_is_told_as_one(count: int, verb: str, told: str) -> None:
    assert counted(count, "cell", verb) == told
