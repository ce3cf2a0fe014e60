"""The score of a serving cell: flat numbers for gates and tables, and all metrics for reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchfleet.benchmarks.base import Score, Session
from benchfleet.benchmarks.serving.point import Measured
from benchfleet.benchmarks.serving.prompt_source import Source
from benchfleet.benchmarks.serving.search import CapacitySearch, points_table
from benchfleet.benchmarks.serving.settings import Settings
from benchfleet.domain.telemetry import Reading
from benchfleet.serving.energy import energy
from benchfleet.serving.metrics import Load, checkpoint_summary, point_metrics, windows_of

LATENCIES = ("ttft_ms", "ttft_scheduled_ms", "tpot_ms", "itl_ms", "e2e_ms", "e2e_scheduled_ms")
_PERCENTILES = ("p50", "p90", "p95", "p99")
_PLAIN = (
    *("total_requests", "successful_requests", "error_count", "total_tokens"),
    *("duration_seconds", "tokens_per_second", "requests_per_second"),
    *("output_tokens_per_second", "total_tokens_per_second", "goodput", "slo_share"),
    *("requested_rate", "achieved_rate", "window_seconds", "is_steady", "half_width"),
    *("short_outputs", "unstable", "collapsed", "chunks_per_second"),
)
NUMBERS = (
    *_PLAIN,
    *("client_bound", "ranked", "capacity", "watts", "joules_per_token"),
    *("load_seconds", "server_ram", "server_gpu_memory"),
    *(f"{name}_{percent}" for name in LATENCIES for percent in _PERCENTILES),
)
SERVER_FILE = "server_metrics.jsonl"
CLIENT_FILE = "client_seconds.jsonl"
_MAX_SERVER_POINTS = 300  # in a result; the file has all
ClientLimit = Callable[[Load], Mapping[str, Any]]  # what the load client takes at most


def point_score(
    measured: Measured,
    settings: Settings,
    source: Source,
    session: Session,
    client_limit: ClientLimit,
) -> Score:
    """Of one load point. The headline is the goodput if there is an `slo`, else output tokens per
    second. That of an open loop follows the rate which was asked for, so it is not ranked."""
    metrics = _metrics(measured, settings.load, settings, source, session.readings())
    metrics["client_limit"] = dict(client_limit(settings.load))
    _write_files(session, {"load": measured})
    is_ranked = not metrics.get("client_bound") and (settings.slo or not settings.load.is_open)
    summary = {
        "ranked": bool(is_ranked),
        **_server(session),
        **_flat(metrics),
        "serving": {
            **metrics,
            **_server(session),
            "round_trip_ms": source.facts.get("round_trip_ms"),
            "facts": dict(source.facts),
        },
    }
    names = ("goodput",) if settings.slo else ("output_tokens_per_second", "requests_per_second")
    headline = next((metrics[name] for name in names if name in metrics), 0.0)
    return Score(overall=float(headline), summary=summary)


def search_score(
    search: CapacitySearch,
    settings: Settings,
    source: Source,
    session: Session,
    client_limit: ClientLimit,
) -> Score:
    """Of a search; the headline is the capacity, and the metrics are those of the point there."""
    points = points_table(search)
    readings = session.readings()
    for point in points:
        load = settings.load_at(point["level"])
        measured = search.measured[point["level"]]
        point["metrics"] = {
            **_metrics(measured, load, settings, source, readings),
            **_server(session),
            "client_limit": dict(client_limit(load)),
            "round_trip_ms": source.facts.get("round_trip_ms"),
        }
    _write_files(session, {str(level): one for level, one in search.measured.items()})
    best: dict[str, Any] = next((p["metrics"] for p in points if p["level"] == search.capacity), {})
    runs = [one.requests for one in search.measured.values()]
    summary = {
        **_flat({**best, **checkpoint_summary(*runs)}),
        "capacity": search.capacity,
        "conclusion": search.conclusion,
        **_server(session),
        "serving": {
            "search": settings.search,
            "capacity": search.capacity,
            "conclusion": search.conclusion,
            "points": points,
            "facts": dict(source.facts),
        },
    }
    return Score(overall=search.capacity, summary=summary)


def _metrics(
    measured: Measured,
    load: Load,
    settings: Settings,
    source: Source,
    readings: Sequence[tuple[int, Reading]],
) -> dict[str, Any]:
    metrics = point_metrics(
        measured.requests,
        load,
        slo=settings.slo,
        seconds=measured.seconds,
        requested_tokens=source.requested_tokens,
    )
    metrics["level"] = load.level
    metrics["closed"] = not load.is_open
    step = max(1, -(-len(measured.server) // _MAX_SERVER_POINTS))
    metrics["server"] = measured.server[::step]
    if measured.requests:
        metrics |= _power(measured, load, readings, metrics)
    return metrics


def _server(session: Session) -> dict[str, Any]:
    """What loading took, if the server was started here: seconds, and bytes of memory."""
    provenance = session.adapter.provenance()
    names = ("load_seconds", "server_ram")
    result = {name: provenance[name] for name in names if provenance.get(name)}
    gpu_memory = [sum(gpu.memory or 0 for gpu in reading.gpus) for _, reading in session.readings()]
    if max(gpu_memory, default=0):
        result["server_gpu_memory"] = max(gpu_memory)
    return result


def _power(
    measured: Measured,
    load: Load,
    readings: Sequence[tuple[int, Reading]],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """The power in the steady window, where the slot's GPUs tell it."""
    window = windows_of(measured.requests, load)[0]
    origin = measured.origins.get(window.segment)
    samples = [(at / 1e9, {gpu.index: gpu.power for gpu in one.gpus}) for at, one in readings]
    if origin is None or not any(watts for _, watts in samples):
        return {}
    measurement = energy(
        samples, begin=(origin + window.begin) / 1e9, end=(origin + window.end) / 1e9
    )
    result: dict[str, Any] = {
        "power_valid": measurement.is_valid,
        "power_reasons": list(measurement.reasons),
        "watts": round(measurement.watts, 2),
    }
    tokens = float(metrics.get("output_tokens_per_second", 0.0)) * window.seconds
    if measurement.is_valid and tokens:
        result["joules_per_token"] = round(measurement.joules / tokens, 4)
    return result


def _flat(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a point by plain names, as gates and the ledger take them."""
    flat = {name: metrics[name] for name in _PLAIN if metrics.get(name) is not None}
    for name in LATENCIES:
        for percent in _PERCENTILES:
            if percent in (metrics.get(name) or {}):
                flat[f"{name}_{percent}"] = metrics[name][percent]
    flat["client_bound"] = bool(metrics.get("client_bound"))
    for name in ("watts", "joules_per_token"):
        if name in metrics:
            flat[name] = metrics[name]
    return flat


def _write_files(session: Session, points: Mapping[str, Measured]) -> None:
    """The series of the server and of the client, as files beside the result."""
    server = [{"point": name, **one} for name, p in points.items() for one in p.server]
    client = [{"point": name, **one.to_dict()} for name, p in points.items() for one in p.seconds]
    for name, rows in ((SERVER_FILE, server), (CLIENT_FILE, client)):
        if rows:
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (session.scratch / name).write_text(text, "utf-8")
