"""The load points of a campaign's cells, from the ledger's outcomes and the published metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.usage import Usage

from .serving import ServingPoint, speed_of

BENCHMARK = "serving"
Details = Callable[[CellRecord], Mapping[str, Any]]


def serving_points(
    pairs: Iterable[tuple[Cell, CellRecord | None]], details: Details
) -> tuple[ServingPoint, ...]:
    """The points of all serving cells with a result, or with what they measured until they ended.
    `details` reads the metrics of a published result."""
    return tuple(
        point
        for cell, record in pairs
        if cell.workload.benchmark == BENCHMARK and record and record.outcome
        for point in _points(cell, record, record.outcome, details)
    )


def _points(
    cell: Cell, record: CellRecord, outcome: Outcome, details: Details
) -> Iterator[ServingPoint]:
    name = cell.workload.subset or cell.workload.label
    serving = details(record) if record.state == "success" else {}
    flat = _numbers(outcome)
    points = serving.get("points") or ()
    measured = [point["metrics"] for point in points] or [serving or flat]
    common: dict[str, Any] = {
        "model": cell.model.name,
        "config": cell.config.name,
        "state": record.state,
        **_bill(outcome.usage, sum(one.get("total_tokens") or 0 for one in measured)),
    }
    if not serving:
        yield ServingPoint(label=name, metrics=flat, **common)
        return
    for point in points:
        verdict = point["verdict"] if point["is_decided"] else "undecided"
        best = point["level"] == serving["capacity"] or len(points) == 1
        yield ServingPoint(
            label=f"{name}: {point['metrics']['load']}",
            metrics=point["metrics"],
            verdict=verdict,
            conclusion=serving["conclusion"] if best else "",
            **common,
        )
    if "points" not in serving:
        yield ServingPoint(label=f"{name}: {serving['load']}", metrics=serving, **common)


def _bill(usage: Usage | None, tokens: int) -> dict[str, Any]:
    """What a cell paid for so many tokens of answers; empty without a price."""
    if usage is None or usage.cost is None:
        return {}
    return {
        "price_per_hour": usage.price_per_hour,
        "bill": usage.machine_cost,
        "billed_seconds": usage.seconds,
        "billed_tokens": tokens,
        "token_cost": usage.token_cost_per_million,
        "currency": usage.currency,
    }


def point_speed(outcome: Outcome) -> float | None:
    """Output tokens per second of a load point, or of the capacity of a search; None if unknown."""
    return speed_of(_numbers(outcome))


def _numbers(outcome: Outcome) -> dict[str, Any]:
    """What the ledger keeps of a point's metrics."""
    return {**outcome.reported, **outcome.metrics}
