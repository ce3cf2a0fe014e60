"""The steady part of a load test, without warm-up and drain, and the rates in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchfleet.serving.percentiles import percentile
from benchfleet.serving.request import Request

_NS = 1_000_000_000
_MAX_DRAIN = 0.25  # of the time of a segment


@dataclass(frozen=True, kw_only=True)
class Window:
    """From `begin` to `end`, in ns since the segment began."""

    begin: int
    end: int
    segment: int = 0
    is_steady: bool = True  # False: so short that warm-up and drain could not be left out

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / _NS

    def has_sent(self, request: Request) -> bool:
        """Whether the request was sent in it; the latencies of such count."""
        return request.segment == self.segment and self.begin <= request.sent <= self.end

    def share(self, begin: int, end: int) -> float:
        """The part of an interval that lies in it; of a moment all or nothing."""
        if end <= begin:
            return float(self.begin <= begin < self.end)
        return max(0, min(end, self.end) - max(begin, self.begin)) / (end - begin)


def steady_window(
    requests: Sequence[Request], *, concurrency: int | None, ramp_s: float = 0.0
) -> Window:
    """The steady window of one segment's requests, which may not be empty.

    Left out are requests sent before the ramp ended and the first full wave was answered. The
    first wave is a request for each stream of a closed loop, and in an open loop all requests sent
    before the first answer ended.

    Left out at the end is the median end-to-end latency, a quarter of the time at most, before the
    load fell: in an open loop with the last arrival, in a closed one when a stream ended its last
    request. So a server that stalls until the end is measured with its stall.
    """
    segment, by_start = requests[0].segment, sorted(requests, key=lambda one: one.sent)
    first, ends = by_start[0].sent, sorted(one.end for one in requests)
    if concurrency is None:
        wave = [one for one in by_start if one.sent <= ends[0]]
        fell = by_start[-1].sent
    else:
        wave = by_start[:concurrency]
        fell = ends[-min(concurrency, len(ends))]
    begin = max(round(ramp_s * _NS), max(one.end for one in wave))
    durations = sorted(one.e2e for one in requests if one.ok and one.e2e is not None)
    drain = round(percentile(durations, 50)) if durations else 0
    end = fell - min(drain, round((fell - first) * _MAX_DRAIN))
    if end > begin:
        return Window(begin=begin, end=end, segment=segment)
    return Window(begin=first, end=ends[-1], segment=segment, is_steady=False)


def tokens_in(window: Window, request: Request) -> float:
    """The tokens of a request's answer that came in the window."""
    if request.segment != window.segment or not request.ok or not request.tokens:
        return 0.0
    if request.first is None or request.last is None:
        return 0.0
    return request.tokens * window.share(request.first, request.last)


def shared(
    window: Window, requests: Sequence[Request], amount: Callable[[Request], float]
) -> float:
    """The sum of an amount of whole answers; a request over an edge gives its share."""
    return math.fsum(
        amount(one) * window.share(one.sent, one.end)
        for one in requests
        if one.ok and one.segment == window.segment
    )


def tokens_each_second(requests: Sequence[Request], *, begin: int, end: int) -> list[float]:
    """Output tokens in each whole second from `begin` to `end`, in ns."""
    count = max(0, (end - begin) // _NS)
    series = [0.0] * count
    for one in requests:
        if not one.ok or not one.tokens or one.first is None or one.last is None:
            continue
        low = max(0, (one.first - begin) // _NS)
        high = min(count - 1, (one.last - begin) // _NS)
        for second in range(low, high + 1):
            piece = Window(begin=begin + second * _NS, end=begin + (second + 1) * _NS)
            series[second] += one.tokens * piece.share(one.first, one.last)
    return series
