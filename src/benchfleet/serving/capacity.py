"""The capacity search: doubles the load until the objective is missed, then bisects.

Pure: it says which load to measure next, and what the answers come to. A point at the client's own
limit is never a miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchfleet.serving.request import Request
from benchfleet.serving.slo import MAX_ERROR_SHARE, Slo, count_good, wilson

Verdict = Literal["pass", "miss", "client"]
RESOLUTION = 0.05  # of the load at which bisection ends
MAX_EXTENSIONS = 4
LEAST_REQUESTS = 100


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured load."""

    level: float
    verdict: Verdict
    is_decided: bool = True  # False: its interval still straddled the limit


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether a point is decided, by the requests so far."""

    verdict: Verdict | None  # None: go on
    is_decided: bool = True


def next_level(
    points: Mapping[float, Verdict], *, first: float, most: float, whole: bool
) -> float | None:
    """The load to measure next; None when the search has ended. Never over `most`; `whole`: loads
    are whole numbers."""
    passed = [level for level, verdict in points.items() if verdict == "pass"]
    bad = [level for level, verdict in points.items() if verdict != "pass"]
    if not points:
        return min(first, most)
    if not passed:
        return None
    low = max(one for one in passed if not bad or one < min(bad)) if _below(passed, bad) else None
    if low is None:  # a miss below every pass: shown, not searched further
        return None
    if not bad:
        return None if low >= most else min(low * 2, most)
    high = min(bad)
    if high - low <= max(RESOLUTION * low, 1.0 if whole else 0.0):
        return None
    middle = (low + high) / 2
    level = float(math.floor(middle)) if whole else round(middle, 3)
    return None if level in points else level


def _below(passed: Sequence[float], bad: Sequence[float]) -> bool:
    return not bad or min(passed) < min(bad)


def least_requests(slo: Slo) -> int:
    """Finished requests that a point needs: 100, and more for a share near 1."""
    return max(LEAST_REQUESTS, math.ceil(3 / (1 - slo.share) - 1e-9)) if slo.share < 1 else 300


def judge(
    requests: Sequence[Request], slo: Slo, *, steady_s: float, least_steady_s: float
) -> Judgement:
    """The verdict on a point by the requests in its steady window.

    It passes when the share of good requests is at least `slo.share`, and errors are at most 1 %.
    It is extended up to four times while the Wilson interval straddles the share; still undecided
    is a miss. It may miss early, when even good answers to all the rest would not help.
    """
    count, need = len(requests), least_requests(slo)
    good = count_good(requests, slo)
    errors = sum(not one.ok for one in requests)
    most = need * (1 + MAX_EXTENSIONS)
    if count - good > (1 - slo.share) * most:
        return Judgement(verdict="miss")
    if count < need or steady_s < least_steady_s:
        return Judgement(verdict=None)
    if errors > MAX_ERROR_SHARE * count:
        return Judgement(verdict="miss")
    low, high = wilson(good, count)
    if low >= slo.share:
        return Judgement(verdict="pass")
    if high < slo.share:
        return Judgement(verdict="miss")
    if count < most:
        return Judgement(verdict=None)
    return Judgement(verdict="miss", is_decided=False)


def conclusion(points: Sequence[Point]) -> str:
    """Such as ``64 (pass 64, miss 68)``, ``below 1``, ``at least 512``, or where the client's own
    limit is."""
    passed = [one.level for one in points if one.verdict == "pass"]
    others = [one for one in points if one.verdict != "pass"]
    if not others:
        return f"at least {max(passed):g}" if passed else "not measured"
    lowest = min(others, key=lambda one: one.level)
    below = [level for level in passed if level < lowest.level]
    if lowest.verdict == "client":
        reached = f", pass {max(below):g}" if below else ""
        return f"limit of the client at {lowest.level:g}{reached}"
    if not below:
        return f"below {lowest.level:g}"
    mark = "" if lowest.is_decided else " undecided"
    above = [level for level in passed if level > lowest.level]
    odd = f", but pass {max(above):g}" if above else ""
    return f"{max(below):g} (pass {max(below):g}, miss {lowest.level:g}{mark}{odd})"


def capacity(points: Sequence[Point]) -> float:
    """The highest load that passed below every miss; 0 if none did."""
    bad = [one.level for one in points if one.verdict != "pass"]
    passed = [one.level for one in points if one.verdict == "pass"]
    return max((level for level in passed if not bad or level < min(bad)), default=0.0)
