"""The benchmark report, from rows of a manifest."""

from __future__ import annotations

from typing import Any

from benchfleet.reports.benchmark_report import benchmark_report
from benchfleet.reports.manifest import COLUMNS


def row(**values: Any) -> dict[str, Any]:
    usual = {"gpu_type": "RTX 4090", "provider": "vast", "model": "7b", "status": "success"}
    return {**dict.fromkeys(COLUMNS), "currency": "EUR", **usual, **values}


ROWS = [
    row(tokens_per_second=100.0, price_per_hour=0.36, cost_per_million_tokens=1.0, total_cost=0.04),
    row(tokens_per_second=300.0, price_per_hour=0.36, cost_per_million_tokens=0.5, total_cost=0.04),
    row(
        gpu_type="A100",
        tokens_per_second=400.0,
        price_per_hour=1.8,
        cost_per_million_tokens=1.25,
        total_cost=0.1,
    ),
    row(
        model=None,
        status="ended",
        failure_stage="ssh_wait",
        failure_reason="ssh_failed",
        error_message="no | answer\nfrom it",
        total_cost=0.02,
    ),
    row(status="failed", failure_stage="load", failure_reason="oom", error_message="too large"),
]


def test_speed_and_cost_are_medians_by_gpu_provider_and_model() -> None:
    text = benchmark_report(ROWS, title="study")
    assert "| RTX 4090 | vast | 7b | 2 | 200.0 | 0.360 EUR | 0.750 EUR |" in text
    assert "| A100 | vast | 7b | 1 | 400.0 | 1.800 EUR | 1.250 EUR |" in text
    bars = {line.split("  ")[0].strip(): line.count("█") for line in text.splitlines()}
    assert bars["RTX 4090 vast 7b"] * 2 < bars["A100 vast 7b"] * 2


def test_tokens_with_a_price_cost_the_same_without_a_price_of_the_machine() -> None:
    text = benchmark_report(
        [row(tokens_per_second=196.3, cost_per_million_tokens=0.8)], title="study"
    )
    assert "| RTX 4090 | vast | 7b | 1 | 196.3 |  | 0.800 EUR |" in text
    assert "EUR for a million output tokens (median):" in text


def test_failures_are_named_with_stage_and_reason_once() -> None:
    text = benchmark_report(ROWS, title="study")
    assert r"| ssh_wait | ssh_failed | 1 | RTX 4090 vast | no \| answer from it |" in text
    assert "| load | oom | 1 | RTX 4090 vast | too large |" in text
    assert "They cost 0.2000 EUR; 0.0200 of it (10%)" in text


def test_a_campaign_without_speed_or_failure_says_so() -> None:
    text = benchmark_report([row()], title="study")
    assert "Nothing failed." in text
    assert "No attempt measured a speed." in text


def test_currencies_are_never_added() -> None:
    numbers = {"tokens_per_second": 100.0, "cost_per_million_tokens": 1.0, "price_per_hour": 0.5}
    paid = [row(total_cost=0.5, currency=one, **numbers) for one in ("EUR", "$", "EUR")]
    text = benchmark_report(paid, title="study")
    assert "They cost 1.0000 EUR; 0.0000 of it" in text
    assert "They cost 0.5000 \\$; 0.0000 of it" in text
    assert "| 3 | 3 | 0 | 1.0000 EUR, 0.5000 \\$ |" in text
    assert "| RTX 4090 | vast | 7b | 2 | 100.0 | 0.500 EUR | 1.000 EUR |" in text
    assert "| RTX 4090 | vast | 7b | 1 | 100.0 | 0.500 \\$ | 1.000 \\$ |" in text
    assert "EUR for a million output tokens (median):" in text
    assert "\\$ for a million output tokens (median):" in text
