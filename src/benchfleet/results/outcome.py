"""How an attempt ended, as the cell.json of its result says it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.usage import Usage
from benchfleet.results.summary import numbers_and_truths


def parsed_outcome(content: Mapping[str, Any], digest: str) -> Outcome:
    """The outcome of a sealed result. Raises all that parsing raises if cell.json has another
    shape."""
    metrics, provenance = _numbers(content["metrics"]), content["provenance"]
    if "overall_score" not in metrics:
        raise ValueError("it has no overall_score")
    return Outcome(
        state="success",
        digest=digest,
        metrics=metrics,
        reported=numbers_and_truths(content.get("reported") or {}),
        seconds=_numbers(content["seconds"]),
        host=str(provenance.get("host", "")),
        device=str(provenance.get("device", "")),
        usage=_usage(content.get("usage")),
        taken_from=str((provenance.get("taken_from") or {}).get("cache", "")),
    )


def _usage(value: Any) -> Usage | None:
    """What the attempt used up; None where its result does not tell, as older ones."""
    return Usage.from_dict(value) if isinstance(value, dict) and value else None


def _numbers(value: Mapping[str, Any]) -> dict[str, float]:
    if not all(type(number) in (int, float) and isfinite(number) for number in value.values()):
        raise ValueError("its metrics or seconds are not finite numbers")
    return dict(value)
