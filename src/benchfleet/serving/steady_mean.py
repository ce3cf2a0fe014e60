"""When a mean is steady: batch means, so that seconds which depend on each other do not deceive."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

BATCHES = 10
FIRST_CHECK_S, CHECK_FACTOR = 60.0, 1.25
LEAST_REQUESTS = 100
DEFAULT_TARGET = 0.05  # of the mean, on each side
_T975 = 2.262157  # Student's t with BATCHES - 1 degrees of freedom


def half_width(series: Sequence[float]) -> float | None:
    """The half-width of the 95 % interval of the mean, relative to the mean, from ten batches;
    None where there are too few values or no mean."""
    size = len(series) // BATCHES
    if size < 1:
        return None
    means = [math.fsum(series[one * size : (one + 1) * size]) / size for one in range(BATCHES)]
    mean = math.fsum(means) / BATCHES
    if mean <= 0:
        return None
    square = math.fsum((one - mean) ** 2 for one in means) / (BATCHES - 1)
    return _T975 * math.sqrt(square / BATCHES) / mean


def halves_agree(series: Sequence[float], target: float) -> bool:
    """Whether the means of both halves differ by no more than `target` of the whole mean."""
    half = len(series) // 2
    if not half:
        return False
    first, second = math.fsum(series[:half]) / half, math.fsum(series[-half:]) / half
    return abs(first - second) <= target * (first + second) / 2


def check_times() -> Iterator[float]:
    """Seconds at which the rule looks: 60, 75, 93.75, …; looking often finds chance agreement."""
    at = FIRST_CHECK_S
    while True:
        yield at
        at *= CHECK_FACTOR


class SteadyMean:
    """Ends a run when two checks in a row found the mean steady."""

    def __init__(self, target: float = DEFAULT_TARGET) -> None:
        self._target = target
        self._times = check_times()
        self._next = next(self._times)
        self._agreed = 0
        self.half_width: float | None = None  # of the last check

    def is_due(self, elapsed_s: float) -> bool:
        """Whether it is time for a check."""
        return elapsed_s >= self._next

    def check(self, series: Sequence[float], requests: int) -> bool:
        """Whether the run may end: `series` is tokens a second in the steady seconds so far."""
        self._next = next(self._times)
        self.half_width = half_width(series)
        good = (
            requests >= LEAST_REQUESTS
            and self.half_width is not None
            and self.half_width <= self._target
            and halves_agree(series, self._target)
        )
        self._agreed = self._agreed + 1 if good else 0
        return self._agreed >= 2
