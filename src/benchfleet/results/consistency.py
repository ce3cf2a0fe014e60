"""Whether the files of a published result hold what they must, and its numbers agree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchfleet.results import layout as names
from benchfleet.results.disk import read_plain
from benchfleet.results.samples import by_index
from benchfleet.results.summary import summarise

# Earlier versions counted no contexts, and a bootstrap is not repeated.
_OTHERWISE_COMPUTED = frozenset({"stderr"})


def wrong_content(
    folder: Path, content: Mapping[str, Any], ledger_metrics: Mapping[str, Any]
) -> Iterator[str]:
    """Where they do not: `content` is its cell.json, `ledger_metrics` those of the
    ledger. Raises OSError."""
    for name in (names.METRICS, names.CONFIG):
        if not isinstance(_json(read_plain(folder / name)), dict):
            yield f"{name} holds no JSON object"
    if _not_text(read_plain(folder / names.RAW_RESULTS)):
        yield f"{names.RAW_RESULTS} is not text"
    metrics = content["metrics"]
    sealed_score, published = metrics.get("overall_score"), _published_score(folder)
    if not _same(published, sealed_score):
        yield f"{names.METRICS} has the score {published}, {names.CELL} {sealed_score}"
    lines = [_json(line) for line in read_plain(folder / names.SAMPLES).splitlines()]
    samples = [line for line in lines if isinstance(line, dict) and type(line.get("index")) is int]
    if other := len(lines) - len(samples):
        yield f"{other} lines of {names.SAMPLES} are not samples"
    records = list(by_index(samples).values())
    scores = [record.get("score") for record in records]
    scores = scores if any(score is not None for score in scores) else []
    try:
        ends = [str(record["ended"]) for record in records if "ended" in record]
        score = {"overall": metrics["overall_score"], "per_sample": scores}
        measures = content.get("measures", {})
        recomputed = summarise({**score, "measures": measures}, records, ends)
    except (ValueError, LookupError, TypeError) as error:
        yield f"{names.SAMPLES} cannot be summed up: {error}"
        return
    for name in (recomputed.keys() | metrics.keys()) - _OTHERWISE_COMPUTED:
        if not _same(recomputed.get(name), metrics.get(name)):
            values = f"{metrics.get(name)}, its samples make {recomputed.get(name)}"
            yield f"{names.CELL} has {name} {values}"
    for name in ledger_metrics.keys() | metrics.keys():
        if not _same(ledger_metrics.get(name), metrics.get(name)):
            yield f"{name} is {metrics.get(name)}, and the ledger has {ledger_metrics.get(name)}"


def _published_score(folder: Path) -> Any:
    content = _json(read_plain(folder / names.METRICS))
    return content.get("overall_score") if isinstance(content, dict) else None


def _not_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)
