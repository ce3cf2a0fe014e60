"""Results of serving benchmarks, as reports show them: a row for each load point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.humanize import counted
from benchfleet.serving.cost import billed_cost_per_million, cost_per_million
from benchfleet.serving.slo import MAX_ERROR_SHARE

from .endings import MAX_WARNINGS

HEADS = (
    *("load", "requests", "requests/s", "output tok/s", "TTFT p50 / p99 ms", "TPOT p50 / p99 ms"),
    *("E2E p50 / p99 ms", "goodput/s", "errors", "per Mtok", "server", "remarks"),
)
LEGEND = (
    "Requests: those that were sent in the steady window. TTFT = first content − sent; "
    "TPOT = (last content − first content) / (tokens − 1); E2E = last "
    "content − sent; in an open loop TTFT and E2E count from when a request was scheduled. "
    "Goodput: requests per second that keep the objective. Per Mtok: the price of a million output "
    "tokens in the steady window, then of the whole bill, and the seconds of both. With a price of "
    "tokens: what prompts and answers cost for a million output tokens. Server: its "
    "load time, memory, power, and energy per output token, where known. A latency in parentheses "
    "is not the server's, since the load client was the bottleneck. ≈: a p99 of fewer than 662 "
    "requests."
)
_GB = 1e9
_LEAST_ROUND_TRIP_MS = 1.0  # of which a reader must know
MIN_REQUESTS = 30  # in the steady window; a report remarks on fewer
_MUCH_OF_LIMIT = 0.5  # of the chunks per second that the load client can read


@dataclass(frozen=True, kw_only=True)
class ServingPoint:
    """One load point of one cell."""

    model: str
    config: str
    label: str  # the subset, with the load
    state: str
    metrics: Mapping[str, Any] = field(default_factory=dict)  # as of `serving.metrics`
    verdict: str = ""  # of a search: pass, miss, client, or undecided
    conclusion: str = ""  # of a search
    price_per_hour: float | None = None  # of the machine, as the bill
    bill: float | None = None
    billed_seconds: float | None = None
    billed_tokens: int = 0  # of answers; those of all points of a search
    token_cost: float | None = None  # of prompts and answers, for a million tokens of answers
    currency: str = ""

    @property
    def series(self) -> str:
        """Which points belong to one curve."""
        return f"{self.model} / {self.config}"

    @property
    def window_requests(self) -> int | None:
        """Requests that were sent in the steady window; None if they were not counted."""
        count = self.metrics.get("window_requests")
        return None if count is None else int(count)

    @property
    def failed_requests(self) -> str:
        """``173 of 175 requests failed``, if those are more than a point without a remark may have;
        else ``""``."""
        failed, total = (self.metrics.get(name) or 0 for name in ("error_count", "total_requests"))
        if failed <= MAX_ERROR_SHARE * total:
            return ""
        return f"{int(failed)} of {counted(int(total), 'request')} failed"

    @property
    def is_open(self) -> bool:
        return not self.metrics.get("closed", True)

    def latency(self, name: str, percent: str) -> float | None:
        """ms of ``ttft``, ``tpot`` or ``e2e``; from scheduled in an open loop."""
        scheduled = self.is_open and name in ("ttft", "e2e")
        values = self.metrics.get(f"{name}_scheduled_ms" if scheduled else f"{name}_ms") or {}
        value = values.get(percent)
        return None if value is None else float(value)

    def cells(self) -> tuple[str, ...]:
        """What its row says under `HEADS`."""
        metrics = self.metrics
        return (
            self.label,
            _number(self.window_requests, 0),
            _number(metrics.get("requests_per_second"), 2),
            _number(speed_of(metrics), 1),
            *(self._latencies(name) for name in ("ttft", "tpot", "e2e")),
            _number(metrics.get("goodput"), 2),
            self._errors(),
            self._cost(),
            self._server(),
            "; ".join(self.remarks()),
        )

    def remarks(self) -> Iterator[str]:
        """What a reader must know of it."""
        metrics = self.metrics
        if self.state != "success":
            yield self.state
        if failed := self.failed_requests:
            yield failed
        if self.verdict:
            yield self.verdict
        if self.conclusion:
            yield f"capacity: {self.conclusion}"
        yield from (f"client bound: {reason}" for reason in metrics.get("client_bound") or ())
        if (share := self.client_share) is not None and share > _MUCH_OF_LIMIT:
            yield f"the load client read {share:.0%} of the chunks that it can"
        if (trip := metrics.get("round_trip_ms") or 0.0) >= _LEAST_ROUND_TRIP_MS:
            yield f"the server is {trip:.1f} ms away (round trip)"
        if metrics.get("unstable"):
            yield "unstable: latency is a lower bound"
        if metrics.get("collapsed"):
            yield "tokens per second collapsed"
        if metrics and not metrics.get("is_steady", True):
            yield "too short for a steady window"
        if self.window_requests is not None and self.window_requests < MIN_REQUESTS:
            yield f"fewer than {MIN_REQUESTS} requests"
        if metrics.get("short_outputs"):
            yield f"{metrics['short_outputs']:.0%} of answers are shorter than requested"

    def _latencies(self, name: str) -> str:
        p50, p99 = self.latency(name, "p50"), self.latency(name, "p99")
        if p50 is None:
            return "–"
        values = self.metrics.get(f"{name}_ms") or {}
        mark = "≈" if "p99" in values.get("flagged", ()) else ""
        text = f"{_number(p50, 1)} / {_number(p99, 1)}{mark}"
        return f"({text})" if self.metrics.get("client_bound") else text

    def _errors(self) -> str:
        errors = self.metrics.get("errors") or {}
        if errors:
            return ", ".join(f"{count} {kind}" for kind, count in errors.items())
        return _number(self.metrics.get("error_count"), 0)

    @property
    def client_share(self) -> float | None:
        """The chunks per second that were read, of those that the load client can read."""
        limit = (self.metrics.get("client_limit") or {}).get("chunks_per_second")
        read = self.metrics.get("chunks_per_second")
        return read / limit if limit and read is not None else None

    def cost(self) -> dict[str, Any]:
        """Of a million output tokens. Of the machine by its price in the steady window and by the
        whole bill, each with its seconds; and of `tokens`. Empty without a price."""
        cost: dict[str, Any] = {}
        if self.price_per_hour is not None and self.bill is not None:
            speed = float(self.metrics.get("output_tokens_per_second") or 0.0)
            cost = {
                "measured": cost_per_million(self.price_per_hour, speed),
                "measured_seconds": self.metrics.get("window_seconds"),
                "billed": billed_cost_per_million(self.bill, self.billed_tokens),
                "billed_seconds": self.billed_seconds,
            }
        if self.token_cost is not None:
            cost["tokens"] = self.token_cost
        return {**cost, "currency": self.currency} if cost else {}

    def _cost(self) -> str:
        cost, texts = self.cost(), []
        if "measured" in cost:
            costs = f"{_number(cost['measured'], 2)} / {_number(cost['billed'], 2)} {self.currency}"
            seconds = (_number(cost[f"{name}_seconds"], 0) for name in ("measured", "billed"))
            texts.append(f"{costs.strip()} ({' / '.join(seconds)} s)")
        if "tokens" in cost:
            texts.append(f"{_number(cost['tokens'], 2)} {self.currency}".strip() + " for tokens")
        return " + ".join(texts) or "–"

    def _server(self) -> str:
        """Load time, memory, power and energy of a token, where they are known."""
        metrics = self.metrics
        is_valid = metrics.get("power_valid", True)
        parts = [
            (metrics.get("load_seconds"), "{:.1f} s"),
            (_scaled(metrics.get("server_ram")), "{:.1f} GB RAM"),
            (_scaled(metrics.get("server_gpu_memory")), "{:.1f} GB GPU"),
            (metrics.get("watts"), "{:.0f} W" if is_valid else "({:.0f} W)"),
            (metrics.get("joules_per_token"), "{:.3f} J"),
        ]
        return ", ".join(words.format(value) for value, words in parts if value) or "–"

    def to_dict(self) -> dict[str, Any]:
        """JSON values only, without the curves."""
        left_out = ("curves", "server", "tokens_each_second")
        metrics = {k: v for k, v in self.metrics.items() if k not in left_out}
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "metrics": metrics,
            "cost_per_million": self.cost(),
            "client_share": self.client_share,
        }


def first_load_warnings(points: Iterable[ServingPoint]) -> tuple[str, ...]:
    """A sentence for each result with many failed requests, and how many more there are. A point of
    a search may have them: it is a miss."""
    results = (one for one in points if one.state == "success" and not one.verdict)
    warned = [one for one in results if one.failed_requests]
    rest = len(warned) - MAX_WARNINGS
    more = [f"and {counted(rest, 'more load point')} with failed requests"] if rest > 0 else []
    texts = (f"{one.series} / {one.label}: {one.failed_requests}" for one in warned[:MAX_WARNINGS])
    return (*texts, *more)


def legend(points: Sequence[ServingPoint]) -> str:
    """The formulas, and what the load client can take on each host by its calibration."""
    limits: dict[tuple[str, int], tuple[float, float]] = {}
    for one in points:
        if limit := one.metrics.get("client_limit"):
            key = str(limit.get("host", "")), int(limit["streams"])
            most = max(limits.get(key, (0.0, 0.0))[1], one.metrics.get("chunks_per_second") or 0.0)
            limits[key] = float(limit["chunks_per_second"]), most
    sentences = [
        f" The load client{f' on {host}' if host else ''} can read {_number(limit, 0)} chunks/s at "
        f"{counted(streams, 'stream')}; "
        f"these points had at most {_number(most, 0)}."
        for (host, streams), (limit, most) in sorted(limits.items())
    ]
    return LEGEND + "".join(sentences)


def by_series(points: Sequence[ServingPoint]) -> dict[str, list[ServingPoint]]:
    """The points of each model × config, in their order."""
    groups: dict[str, list[ServingPoint]] = {}
    for point in points:
        groups.setdefault(point.series, []).append(point)
    return groups


def speed_of(metrics: Mapping[str, Any]) -> float | None:
    """Output tokens per second in the steady window; of all requests if there was none."""
    value = metrics.get("output_tokens_per_second", metrics.get("tokens_per_second"))
    return None if value is None else float(value)


def _scaled(size: Any) -> float | None:
    return None if size is None else size / _GB


def _number(value: Any, decimals: int) -> str:
    return "–" if value is None else f"{float(value):,.{decimals}f}"
