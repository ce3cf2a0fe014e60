"""The metrics of one load point, from its requests alone.

Formulas, with n output tokens by the server's count:

* TTFT = first content or reasoning − sent; the same from *scheduled*, which an open loop needs.
* TPOT = (last content − first content) / (n − 1), for n ≥ 2.
* ITL = the gap between two pieces with content, as the client read them.
* E2E = last content − sent, or − scheduled.
* Goodput = requests that keep the objective / steady seconds.

Latencies are of the requests that were answered and were sent in the steady window. Rates count
what came in it; a request over its edge gives its share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchfleet.serving.client_bound import client_bound
from benchfleet.serving.load_run import Second
from benchfleet.serving.percentiles import quantiles, summary
from benchfleet.serving.request import Request
from benchfleet.serving.slo import Slo, count_good
from benchfleet.serving.steady_mean import half_width
from benchfleet.serving.window import (
    Window,
    shared,
    steady_window,
    tokens_each_second,
    tokens_in,
)

_NS, _MS_NS, _MS_US = 1_000_000_000, 1e6, 1e3
_UNSTABLE_FROM_S, _UNSTABLE_GROWTH = 30.0, 0.5
_COLLAPSED, _COLLAPSE_BATCHES = 0.3, 10
_MAX_SERIES = 600  # points


@dataclass(frozen=True, kw_only=True)
class Load:
    """What was asked of the server."""

    concurrency: int | None = None  # of a closed loop
    rate: float | None = None  # requests a second, of an open loop
    arrivals: str = ""  # poisson or constant
    ramp_s: float = 0.0

    @property
    def is_open(self) -> bool:
        return self.rate is not None

    @property
    def level(self) -> float:
        """Concurrency or rate."""
        return float(self.rate if self.rate is not None else self.concurrency or 1)

    @property
    def label(self) -> str:
        """``concurrency 8``, ``4/s poisson``, ``4/s constant``."""
        if self.rate is None:
            return f"concurrency {self.concurrency}"
        return f"{self.rate:g}/s {self.arrivals}"


def windows_of(requests: Sequence[Request], load: Load) -> list[Window]:
    """The steady window of each segment, the longest first."""
    segments: dict[int, list[Request]] = {}
    for one in requests:
        segments.setdefault(one.segment, []).append(one)
    windows = [
        steady_window(some, concurrency=load.concurrency, ramp_s=load.ramp_s)
        for some in segments.values()
    ]
    return sorted(windows, key=lambda one: (not one.is_steady, -one.seconds))


def has_answers(requests: Sequence[Request], load: Load) -> bool:
    """Whether a request of the steady windows was answered; else there is nothing to measure."""
    if not requests:
        return False
    inside = _sent_inside(requests, _chosen(windows_of(requests, load)))
    return any(one.ok for one in inside or requests)


def point_metrics(
    requests: Sequence[Request],
    load: Load,
    *,
    slo: Slo | None = None,
    seconds: Sequence[Second] = (),
    requested_tokens: int | None = None,
) -> dict[str, Any]:
    """The metrics; JSON values only. Latencies pool all segments, rates are of the longest one."""
    checkpoint = checkpoint_summary(requests)
    if not requests:
        return {**checkpoint, "errors": {}}
    windows = windows_of(requests, load)
    main = windows[0]
    chosen = _chosen(windows)
    inside = _sent_inside(requests, chosen)
    good = [one for one in inside if one.ok]
    known_tokens = all(one.tokens is not None for one in good)
    length = main.seconds
    result: dict[str, Any] = {
        **checkpoint,
        "errors": dict(sorted(Counter(one.error for one in requests if one.error).items())),
        "load": load.label,
        "window_seconds": round(length, 3),
        "window_requests": len(inside),
        "is_steady": main.is_steady,
        "segments": len(windows),
        **_latencies(good),
    }
    if length > 0:
        done = shared(main, requests, lambda one: 1.0)
        result["requests_per_second"] = round(done / length, 4)
        chunks = shared(main, requests, lambda one: float(sum(one.lines)))
        result["chunks_per_second"] = round(chunks / length, 2)
        if known_tokens:
            output = math.fsum(tokens_in(main, one) for one in requests)
            prompts = shared(main, requests, lambda one: float(one.prompt_tokens or 0))
            result["output_tokens_per_second"] = round(output / length, 4)
            result["total_tokens_per_second"] = round((output + prompts) / length, 4)
    sources = {one.token_source for one in good} - {""}
    result["token_source"] = "+".join(sorted(sources))
    _counts(result, good, requested_tokens)
    if load.is_open:
        _open_loop(result, requests, main, load)
    if slo is not None and inside:
        result["slo_share"] = round(count_good(inside, slo) / len(inside), 6)
        span = math.fsum(window.seconds for window in chosen)
        done = math.fsum(
            shared(window, requests, lambda one: float(slo.keeps(one))) for window in chosen
        )
        result["goodput"] = round(done / span, 4) if span > 0 else 0.0
        result["slo"] = slo.to_dict()
    in_window = [
        one
        for one in seconds
        if one.segment == main.segment and main.begin <= one.second * _NS <= main.end
    ]
    limit = slo.ttft if slo else None
    result["client_bound"] = client_bound(in_window, open_loop=load.is_open, ttft_limit_s=limit)
    result |= _series(requests, main)
    return result


def checkpoint_summary(*runs: Sequence[Request]) -> dict[str, Any]:
    """The checkpoint of source S4, over all requests of the runs, steady or not."""
    requests = [one for run in runs for one in run]
    good = [one for one in requests if one.ok]
    spans: dict[tuple[int, int], int] = {}
    for number, run in enumerate(runs):
        for one in run:
            segment = number, one.segment  # each has a clock of its own
            spans[segment] = max(spans.get(segment, 0), one.end)
    duration = sum(spans.values()) / _NS
    tokens = sum(one.tokens or 0 for one in good)
    return {
        "total_requests": len(requests),
        "successful_requests": len(good),
        "error_count": len(requests) - len(good),
        "total_tokens": tokens,
        "duration_seconds": round(duration, 3),
        "tokens_per_second": round(tokens / duration, 4) if duration > 0 else 0.0,
    }


def is_unstable(requests: Sequence[Request], window: Window) -> bool:
    """Whether an open loop was saturated: over the whole window, from 30 s on, requests under way
    and the time to the first token both rise."""
    if window.seconds < _UNSTABLE_FROM_S:
        return False
    own = [one for one in requests if one.segment == window.segment]
    in_flight = []
    for second in range(int(window.seconds)):
        at = window.begin + second * _NS
        in_flight.append((float(second), float(sum(one.sent <= at < one.end for one in own))))
    ttft = [
        ((one.sent - window.begin) / _NS, float(one.ttft_scheduled))
        for one in own
        if window.has_sent(one) and one.ttft_scheduled is not None
    ]
    growth = _slope(in_flight) * window.seconds
    mean = math.fsum(value for _, value in in_flight) / len(in_flight)
    return growth > max(1.0, _UNSTABLE_GROWTH * mean) and _slope(ttft) > 0


def has_collapsed(series: Sequence[float]) -> bool:
    """Whether tokens per second fell to under 30 % of the median and stayed there: memory pressure
    or a throttled device. The last tenth is compared with all before it."""
    size = len(series) // _COLLAPSE_BATCHES
    if size < 3:
        return False
    before, last = sorted(series[:-size]), series[-size:]
    return max(last) < _COLLAPSED * before[len(before) // 2]


def _chosen(windows: Sequence[Window]) -> Sequence[Window]:
    """The steady ones, if there are any."""
    return [window for window in windows if window.is_steady] or windows


def _sent_inside(requests: Sequence[Request], windows: Sequence[Window]) -> list[Request]:
    return [one for one in requests if any(window.has_sent(one) for window in windows)]


def _latencies(good: Sequence[Request]) -> dict[str, Any]:
    columns: Mapping[str, tuple[list[float], float]] = {
        "ttft_ms": ([r.ttft for r in good if r.ttft is not None], _MS_NS),
        "ttft_scheduled_ms": (
            [r.ttft_scheduled for r in good if r.ttft_scheduled is not None],
            _MS_NS,
        ),
        "tpot_ms": ([r.tpot for r in good if r.tpot is not None], _MS_NS),
        "itl_ms": ([gap for r in good for gap in r.gaps], _MS_US),
        "e2e_ms": ([r.e2e for r in good if r.e2e is not None], _MS_NS),
        "e2e_scheduled_ms": (
            [r.e2e_scheduled for r in good if r.e2e_scheduled is not None],
            _MS_NS,
        ),
    }
    result: dict[str, Any] = {
        name: summary(values, scale=scale) for name, (values, scale) in columns.items()
    }
    result["curves"] = {
        name: quantiles(values, scale=scale) for name, (values, scale) in columns.items()
    }
    return result


def _counts(result: dict[str, Any], good: Sequence[Request], requested: int | None) -> None:
    prompts = sorted(one.prompt_tokens for one in good if one.prompt_tokens is not None)
    outputs = sorted(one.tokens for one in good if one.tokens is not None)
    if prompts:
        result["prompt_tokens_p50"] = prompts[(len(prompts) - 1) // 2]
    if outputs:
        result["output_tokens_p50"] = outputs[(len(outputs) - 1) // 2]
        if requested:
            short = sum(count < requested for count in outputs)
            result["short_outputs"] = round(short / len(outputs), 4)


def _open_loop(
    result: dict[str, Any], requests: Sequence[Request], main: Window, load: Load
) -> None:
    sent = [one for one in requests if main.has_sent(one)]
    result["requested_rate"] = load.rate
    if main.seconds > 0:
        result["achieved_rate"] = round(len(sent) / main.seconds, 4)
    result["schedule_delay_ms"] = summary([r.sent - r.scheduled for r in sent], scale=_MS_NS)
    result["unstable"] = is_unstable(requests, main)


def _series(requests: Sequence[Request], main: Window) -> dict[str, Any]:
    own = [one for one in requests if one.segment == main.segment]
    series = tokens_each_second(own, begin=main.begin, end=main.end)
    width = half_width(series)
    whole = tokens_each_second(own, begin=0, end=max(one.end for one in own))
    return {
        "half_width": None if width is None else round(width, 4),
        "collapsed": has_collapsed(whole),
        "tokens_each_second": [round(one, 2) for one in whole[:_MAX_SERIES]],
    }


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the least-squares line; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    mean_x = math.fsum(x for x, _ in points) / len(points)
    mean_y = math.fsum(y for _, y in points) / len(points)
    below = math.fsum((x - mean_x) ** 2 for x, _ in points)
    above = math.fsum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / below if below else 0.0
