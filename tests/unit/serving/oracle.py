"""An independent second computation of the metrics, as plainly as can be written: numpy, loops."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from benchfleet.serving.request import Request


def nearest_rank(values: Sequence[float], percent: int) -> float:
    array = np.sort(np.array(values, dtype=float))
    return float(np.percentile(array, percent, method="inverted_cdf"))


def steady_edges(requests: Sequence[Request], concurrency: int | None) -> tuple[int, int]:
    sent = np.array([r.sent for r in requests])
    order = np.argsort(sent, kind="stable")
    if concurrency is None:
        first_end = min(r.end for r in requests)
        begin = max(r.end for r in requests if r.sent <= first_end)
        fell = int(sent.max())
    else:
        begin = max(requests[i].end for i in order[:concurrency])
        free = [0] * concurrency  # when each stream ended its request
        for i in order:
            heapq.heapreplace(free, requests[i].end)
        fell = free[0]
    e2e = [r.last - r.sent for r in requests if not r.error and r.last is not None]
    return begin, int(fell - min(nearest_rank(e2e, 50), (fell - sent.min()) / 4))


def output_rate(requests: Sequence[Request], begin: int, end: int) -> float:
    """Tokens by a fine grid in place of the overlap of intervals."""
    total = 0.0
    for r in requests:
        if r.error or not r.tokens or r.first is None or r.last is None:
            continue
        if r.last == r.first:
            total += r.tokens * (begin <= r.first < end)
            continue
        grid = np.linspace(r.first, r.last, 20_001)
        middle = (grid[1:] + grid[:-1]) / 2
        total += r.tokens * float(np.mean((middle >= begin) & (middle < end)))
    return total / ((end - begin) / 1e9)
