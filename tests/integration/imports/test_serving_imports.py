"""Results of guidellm and AIPerf become results of serving cells, mapped by formula."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchfleet.cli.main import main

CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: m, adapter: openai, model: openai/gpt-oss-20b, url: "http://127.0.0.1:1/v1"}]
  benchmarks:
    - serving: {subsets: {c100: {concurrency: 100}, c8: {concurrency: 8}, p4: {rate: 4/s}}}
"""


def spread(p50: float) -> dict[str, Any]:
    percentiles = {"p50": p50, "p90": 2 * p50, "p95": 3 * p50, "p99": 4 * p50}
    return {"successful": {"mean": p50, "median": p50, "percentiles": percentiles}}


GUIDELLM = {
    "args": {"model": "openai/gpt-oss-20b"},
    "benchmarks": [
        {
            "config": {"strategy": strategy},
            "metrics": {
                "requests_per_second": {"successful": {"mean": 4.0}},
                "output_tokens_per_second": {"successful": {"mean": 500.0}},
                "time_to_first_token_ms": spread(50.0),
                "inter_token_latency_ms": spread(7.0),
                "time_per_output_token_ms": spread(9.0),
                "request_latency": spread(1.5),
                "request_totals": {"successful": 98, "errored": 2, "total": 100},
            },
        }
        for strategy in (
            {"type_": "concurrent", "streams": 8},
            {"type_": "poisson", "rate": 4.0},
            {"type_": "throughput"},
        )
    ],
}
AIPERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 13.2},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1270.0},
    "request_latency": {"unit": "ms", "p50": 5800.0, "p90": 8594.0, "p95": 8980.0, "p99": 9381.0},
    "time_to_first_token": {"unit": "ms", "p50": 787.0, "p95": 4051.0},
    "inter_token_latency": {"unit": "ms", "p50": 51.9, "p99": 55.9},
    "request_count": {"unit": "requests", "avg": 200.0},
    "error_summary": [{"error_details": {"code": 500}, "count": 3}],
    "goodput": None,
    "input_config": {
        "endpoint": {"model_names": ["openai/gpt-oss-20b"]},
        "loadgen": {"concurrency": 100, "request_rate_mode": "concurrency_burst"},
    },
}


def test_results_are_mapped_by_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(CAMPAIGN)
    out = tmp_path / "out"
    out.mkdir()
    (out / "benchmarks.json").write_text(json.dumps(GUIDELLM))
    (out / "profile_export_aiperf.json").write_text(json.dumps(AIPERF))
    code = main(["import", "study.yaml", "out", "--json"])
    summary = json.loads(capsys.readouterr().out)
    assert (code, summary["imported"]) == (1, 3)
    assert len(summary["left out"]) == 1  # no cell measures guidellm's throughput mode
    cells = tmp_path / "benchmark_results" / "study" / "m" / "dense"
    read = {
        name: json.loads((cells / f"serving_{name}" / "metrics.json").read_text())["summary"]
        for name in ("c8", "p4", "c100")
    }
    assert read["c8"]["tpot_ms_p99"] == 28.0  # which guidellm calls inter-token latency
    assert read["c8"]["e2e_ms_p50"] == 1500.0  # guidellm has seconds
    assert read["c8"]["guidellm_time_per_output_token_ms_p50"] == 9.0
    assert (read["c8"]["total_requests"], read["c8"]["error_count"]) == (100, 2)
    assert read["p4"]["serving"]["load"] == "4/s poisson"
    assert (read["c100"]["tpot_ms_p50"], read["c100"]["error_count"]) == (51.9, 3)
    assert main(["report", "study.yaml", "--format", "markdown"]) == 0
    report = capsys.readouterr().out
    assert "concurrency 100" in report
    assert "787.0" in report


def test_a_broken_report_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(CAMPAIGN)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "profile_export_aiperf.json").write_text('{"x": 1}')
    assert main(["import", "study.yaml", "out", "--json"]) == 1
    (line,) = json.loads(capsys.readouterr().out)["left out"]
    assert "no report of AIPerf" in line
