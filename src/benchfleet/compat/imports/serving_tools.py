"""Results of guidellm (``benchmarks.json``) and AIPerf (``profile_export_aiperf.json``).

Metrics are mapped by their formula, not by their name: what both tools call inter-token latency is
(last − first) / (tokens − 1), which is TPOT here. guidellm's time per output token has no
counterpart, as it holds the time to the first token; it keeps its name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .result import ForeignResult, UnreadableResult

_PERCENTILES = ("p50", "p90", "p95", "p99")
_GUIDELLM_FILE, _AIPERF_FILE = "*benchmarks*.json", "*profile_export_aiperf.json"


def guidellm_files(folder: Path) -> list[Path]:
    """The reports below a folder."""
    return sorted(folder.rglob(_GUIDELLM_FILE))


def aiperf_files(folder: Path) -> list[Path]:
    """The reports below a folder."""
    return sorted(folder.rglob(_AIPERF_FILE))


def read_guidellm(file: Path) -> Iterator[ForeignResult]:
    """A result for each benchmark of a report."""
    content = _read(file, "guidellm")
    for one in content.get("benchmarks") or ():
        try:
            yield _guidellm_result(file, content, one)
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableResult(f"{file} is no report of guidellm: {error!r}") from error


def read_aiperf(file: Path) -> Iterator[ForeignResult]:
    """The result of a run."""
    content = _read(file, "AIPerf")
    try:
        yield _aiperf_result(file, content)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UnreadableResult(f"{file} is no report of AIPerf: {error!r}") from error


def _read(file: Path, harness: str) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableResult(f"{file} is no report of {harness}: {error!r}") from error
    if not isinstance(content, Mapping):
        raise UnreadableResult(f"{file} is no report of {harness}: it is not an object")
    return content


def _guidellm_result(
    file: Path, content: Mapping[str, Any], one: Mapping[str, Any]
) -> ForeignResult:
    metrics = one["metrics"]
    settings = one.get("config") or one.get("args") or {}
    strategy = settings.get("strategy") or {}
    totals = metrics.get("request_totals") or one.get("request_totals") or {}
    backend = settings.get("backend") or {}
    model = (content.get("args") or {}).get("model") or backend.get("model")
    serving: dict[str, Any] = {
        "closed": "rate" not in strategy or strategy.get("type_") == "concurrent",
        "requests_per_second": _mean(metrics, "requests_per_second"),
        "output_tokens_per_second": _mean(metrics, "output_tokens_per_second"),
        "total_tokens_per_second": _mean(metrics, "tokens_per_second"),
        "ttft_ms": _spread(metrics, "time_to_first_token_ms"),
        "tpot_ms": _spread(metrics, "inter_token_latency_ms"),
        "e2e_ms": _spread(metrics, "request_latency", factor=1000.0),
        "guidellm_time_per_output_token_ms": _spread(metrics, "time_per_output_token_ms"),
    }
    _count(serving, totals.get("successful"), totals.get("errored"))
    return _result(file, "guidellm", str(model or ""), _guidellm_load(strategy), serving)


def _guidellm_load(strategy: Mapping[str, Any]) -> dict[str, Any]:
    kind = strategy.get("type_")
    if kind == "synchronous":
        return {"concurrency": 1}
    if kind == "concurrent":
        return {"concurrency": int(strategy["streams"])}
    if kind in ("constant", "poisson", "async"):
        arrivals = "poisson" if kind == "poisson" else "constant"
        return {"rate": float(strategy["rate"]), "arrivals": arrivals}
    return {"strategy": str(kind)}  # such as throughput: no cell asks for that


def _aiperf_result(file: Path, content: Mapping[str, Any]) -> ForeignResult:
    settings = content["input_config"]
    load = settings.get("loadgen") or {}
    mode = str(load.get("request_rate_mode") or "")
    errors = sum(int(one.get("count", 0)) for one in content.get("error_summary") or ())
    rate = load.get("request_rate")
    serving: dict[str, Any] = {
        "closed": rate is None,
        "requests_per_second": _average(content, "request_throughput"),
        "output_tokens_per_second": _average(content, "output_token_throughput"),
        "ttft_ms": _percentiles(content, "time_to_first_token"),
        "tpot_ms": _percentiles(content, "inter_token_latency"),
        "itl_ms": _percentiles(content, "inter_chunk_latency"),
        "e2e_ms": _percentiles(content, "request_latency"),
    }
    goodput = content.get("goodput")
    if isinstance(goodput, Mapping):
        serving["goodput"] = goodput.get("avg")
    _count(serving, _average(content, "request_count"), errors)
    load_key = (
        {"concurrency": int(load.get("concurrency") or 1)}
        if rate is None
        else {"rate": float(rate), "arrivals": "poisson" if "poisson" in mode else "constant"}
    )
    names = (settings.get("endpoint") or {}).get("model_names") or [""]
    return _result(file, "AIPerf", str(names[0]), load_key, serving)


def _result(
    file: Path, harness: str, model: str, load: Mapping[str, Any], serving: Mapping[str, Any]
) -> ForeignResult:
    values = {name: value for name, value in serving.items() if value not in (None, {})}
    rate = load.get("rate")
    values["load"] = (
        f"concurrency {load.get('concurrency')}"
        if rate is None
        else f"{rate:g}/s {load['arrivals']}"
    )
    values["level"] = load.get("concurrency", rate or 0)
    flat = {
        f"{name}_{percent}": value[percent]
        for name, value in values.items()
        if isinstance(value, Mapping) and name != "errors"
        for percent in _PERCENTILES
        if percent in value
    }
    numbers = {k: v for k, v in values.items() if isinstance(v, (int, float))}
    speed = values.get("output_tokens_per_second", values.get("requests_per_second"))
    if speed is None:
        raise UnreadableResult(f"{file} has no tokens and no requests per second")
    return ForeignResult(
        file=file,
        harness=harness,
        model=model,
        benchmark="serving",
        load=load,
        overall=float(speed),
        summary={**numbers, **flat, "serving": values},
        settings={"load": dict(load)},
    )


def _count(serving: dict[str, Any], successful: Any, errors: Any) -> None:
    if successful is not None:
        count, failed = int(successful), int(errors or 0)
        serving["successful_requests"], serving["error_count"] = count, failed
        serving["total_requests"] = count + failed
        if failed:
            serving["errors"] = {"failed": failed}


def _mean(metrics: Mapping[str, Any], name: str) -> float | None:
    values = (metrics.get(name) or {}).get("successful") or {}
    return _finite(values.get("mean", values.get("median")))


def _spread(metrics: Mapping[str, Any], name: str, *, factor: float = 1.0) -> dict[str, float]:
    values = (metrics.get(name) or {}).get("successful") or {}
    percentiles = {"p50": values.get("median"), **(values.get("percentiles") or {})}
    spread = {name: _finite(percentiles.get(name)) for name in _PERCENTILES}
    return {name: round(value * factor, 4) for name, value in spread.items() if value is not None}


def _average(content: Mapping[str, Any], name: str) -> float | None:
    return _finite((content.get(name) or {}).get("avg"))


def _percentiles(content: Mapping[str, Any], name: str) -> dict[str, float]:
    values = content.get(name) or {}
    spread = {percent: _finite(values.get(percent)) for percent in _PERCENTILES}
    return {percent: value for percent, value in spread.items() if value is not None}


def _finite(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
