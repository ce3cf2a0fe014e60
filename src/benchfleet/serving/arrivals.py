"""When the requests of an open loop are sent: a schedule of absolute times, made beforehand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Literal

Arrivals = Literal["poisson", "constant"]
_NS = 1_000_000_000


def arrival_times(rate: float, arrivals: Arrivals, seed: int) -> Iterator[int]:
    """Nanoseconds from the start, ascending and without end; `rate` is requests a second.

    Gaps of a Poisson process are exponential and not rescaled to any total.
    """
    if arrivals == "constant":
        yield from (round(number * _NS / rate) for number in count())
        return
    draw, at = random.Random(f"arrivals {seed}"), 0.0  # noqa: S311 - no secret
    while True:
        at += draw.expovariate(rate)
        yield round(at * _NS)


def part_of(times: Iterator[int], part: int, parts: int) -> Iterator[tuple[int, int]]:
    """The share of one of several clients: (position in the schedule, time)."""
    return islice(enumerate(times), part, None, parts)
