"""The results tree of sparse-attention-hub: ``<model>/<config>/<benchmark>_<subset>/``.

A folder holds ``metrics.json``, ``raw_results.csv`` and ``config.json``.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .result import ForeignResult, UnreadableResult, sample

_METRICS, _SETTINGS, _ROWS = "metrics.json", "config.json", "raw_results.csv"
# Its name of a benchmark → the campaign's, and the factor to the campaign's scale.
_BENCHMARKS: Mapping[str, tuple[str, float]] = {
    "longbench": ("longbench", 1.0),
    "longbenchv2": ("longbench_v2", 0.01),
    "infinite_bench": ("infinite_bench", 1.0),
    "ruler": ("ruler", 0.01),
    "ruler16k": ("ruler", 0.01),
    "ruler32k": ("ruler", 0.01),
    "loogle": ("loogle", 1.0),
    "aime2024": ("aime2024", 1.0),
    "aime2025": ("aime2025", 1.0),
    "mock_benchmark": ("mock_benchmark", 1.0),
}
_LENGTHS = {"ruler16k": "16384", "ruler32k": "32768"}
_CONFIG_KEYS = {"benchmark_name", "subsets_to_run", "sparse_attention_config"}


def attention_hub_files(folder: Path) -> list[Path]:
    """The results below a folder: metrics beside the settings that only this harness writes."""
    return [file for file in sorted(folder.rglob(_METRICS)) if _settings(file)]


def read_attention_hub(file: Path) -> Iterator[ForeignResult]:
    """The one result of a folder."""
    settings = _settings(file)
    folder = file.parent
    try:
        metrics = json.loads(file.read_text("utf-8"))
        rows = _rows(folder / _ROWS)
    except (OSError, ValueError, csv.Error) as error:
        raise UnreadableResult(f"{folder} is no whole result: {error}") from error
    overall = metrics.get("overall_score") if isinstance(metrics, dict) else None
    if not isinstance(overall, (int, float)) or not math.isfinite(overall):
        raise UnreadableResult(f"{file} has no overall_score")
    theirs = str(settings["benchmark_name"])
    benchmark, factor = _BENCHMARKS.get(theirs.lower(), (theirs, 1.0))
    subset = folder.name.removeprefix(theirs).removeprefix("_") or None
    yield ForeignResult(
        file=file,
        harness="sparse-attention-hub",
        model=folder.parent.parent.name,
        config=folder.parent.name,
        benchmark=benchmark,
        subset=_LENGTHS.get(theirs) if subset is None else subset,
        overall=overall * factor,
        metrics=_numbers(metrics.get("task_scores"), factor),
        samples=[
            sample(
                index,
                row.get("id") or index,
                row.get("question", ""),
                row.get("answer") or row.get("answers") or "",
                row.get("predicted_answer", ""),
            )
            for index, row in enumerate(rows)
        ],
        answered=len(rows) or None,
        limit=(settings.get("request_kwargs") or {}).get("max_requests"),
        settings=settings,
    )


def _settings(file: Path) -> dict[str, Any]:
    try:
        content = json.loads((file.parent / _SETTINGS).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and content.keys() >= _CONFIG_KEYS else {}


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    csv.field_size_limit(sys.maxsize)  # contexts are longer than the default
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _numbers(scores: Any, factor: float) -> dict[str, float]:
    """Scores of tasks, also by length or metric, as flat names."""
    numbers: dict[str, float] = {}
    for name, value in (scores or {}).items() if isinstance(scores, Mapping) else ():
        inner = value if isinstance(value, Mapping) else {"": value}
        for more, one in inner.items():
            if isinstance(one, (int, float)) and math.isfinite(one):
                numbers[f"{name} {more}".strip()] = one * factor
    return numbers
