"""The manifest: one row for each attempt and for each rental without one, from the ledger alone.

Its columns are those of the manifest table of source S4 (benchmarks on rented GPUs), and the cost
of a million output tokens: of the slot at the measured speed, and of tokens with a price. The costs
of the rows of a rental that ended add up to what it cost: they are shared by time, in millionths.
While it is open, its rows have what attempts cost by price and time, if that is known.

The view `benchmark_manifest` of a SQLite or PostgreSQL ledger has the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.rental import Rental, RentalHistory
from benchfleet.domain.usage import Usage
from benchfleet.serving.cost import cost_per_million

COLUMNS = (
    *("id", "run_id", "created_at", "gpu_type", "provider", "model", "priority", "worker_id"),
    *("session_id", "instance_ip", "ssh_port", "offer_id", "price_per_hour", "status"),
    *("started_at", "completed_at", "benchmark_id", "output_file", "tokens_per_second"),
    *("total_requests", "error_count", "failure_reason", "failure_stage", "error_message"),
    *("total_cost", "notes", "cost_per_million_tokens"),
)
EVENTS = ("claimed", "used", "finished", "released", "reaped", "cancel_asked")
_TIMES = "created_at", "started_at", "completed_at"
_MILLION = 1_000_000
_SHORT = 12  # characters of a fingerprint
_SHARES = 100  # of a second, by which costs are shared
Row = dict[str, Any]


def manifest(
    events: Iterable[Event],
    records: Iterable[CellRecord],
    rentals: RentalHistory,
    *,
    columns: Sequence[str] = COLUMNS,
) -> list[Row]:
    """The rows in the order in which their attempts began. Their ``currency`` is no column of the
    table, and may be asked for too.

    `events` are those of `EVENTS`, oldest first; `records` have their cells.
    """
    by_fingerprint = {str(record.fingerprint): record for record in records}
    rows: dict[tuple[str, int], Row] = {}
    newest: dict[str, int] = {}  # the token of each cell's last claim
    for event in events:
        record = by_fingerprint.get(event.fingerprint)
        if record is None:
            continue
        # Who cancels a cell names no token: what runs it ends.
        token = event.data.get("token", newest.get(event.fingerprint, 0))
        key = event.fingerprint, int(token)
        if event.kind == "claimed":
            newest[event.fingerprint] = key[1]
            rows[key] = _begun(event, record)
        elif key in rows and event.kind == "used":
            usage = Usage.from_dict(event.data["usage"]) if "usage" in event.data else None
            _add_use(rows[key], str(event.data.get("host", "")), usage)
        elif key in rows and rows[key]["completed_at"] is None:
            _end(rows[key], event)
    by_rental: dict[str, list[Row]] = {}
    for row in rows.values():
        rental = rentals.of_host(row.pop("_host", ""))
        if rental is not None:
            by_rental.setdefault(rental.id, []).append(row)
            row.update(_rented(rental))
        elif "total_cost" in row:
            row["notes"] = "estimated"
        notes = row.get("notes"), row.pop("_reason", None)
        row["notes"] = "; ".join(one for one in notes if one) or None
    alone = [_unused(one) for one in rentals.rentals.values() if one.id not in by_rental]
    for id, some in by_rental.items():
        if not rentals.rentals[id].is_open:
            _share(rentals.rentals[id].cost, some)
    every = [*rows.values(), *alone]
    every.sort(key=lambda row: row["started_at"] or row["created_at"])
    for row in every:
        row.update({name: _iso(row[name]) for name in _TIMES})
    return [{name: row.get(name) for name in columns} for row in every]


def _iso(seconds: float | None) -> str | None:
    """A time as ``2026-01-31T12:00:00Z``."""
    if seconds is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _begun(event: Event, record: CellRecord) -> Row:
    cell = record.cell
    data = event.data
    return {
        "id": f"{event.fingerprint[:_SHORT]}-{data['attempt']}",
        "run_id": data["runner"],
        "worker_id": data["runner"],
        "created_at": event.at,
        "started_at": event.at,
        "completed_at": None,
        "status": "running",
        "model": cell.model.name if cell else None,
        "priority": cell.priority if cell else None,
        "output_file": record.path,
        "provider": "local",
    }


def _end(row: Row, event: Event) -> None:
    row["completed_at"] = event.at
    row["status"] = "cancelled" if event.kind == "cancel_asked" else event.kind
    if event.kind != "finished":
        unsaid = "its lease ran out" if event.kind == "reaped" else None
        row["_reason"] = event.data.get("reason", unsaid)
        return
    outcome = Outcome.from_dict(event.data["outcome"])
    row["_reason"] = f"taken from {outcome.taken_from}" if outcome.taken_from else None
    row["status"] = outcome.state
    row["gpu_type"] = outcome.device_type or None
    row["benchmark_id"] = outcome.digest or None
    numbers = {**outcome.reported, **outcome.metrics}
    for column, names in _METRICS.items():
        row[column] = next((numbers[name] for name in names if name in numbers), None)
    _add_use(row, outcome.host, outcome.usage)
    if (failure := outcome.reason) is not None:
        row["failure_reason"] = failure.kind
        row["failure_stage"] = failure.stage
        row["error_message"] = failure.message


def _add_use(row: Row, host: str, usage: Usage | None) -> None:
    if host:
        row["_host"] = row["worker_id"] = host
    if usage is None:
        return
    if usage.cost is not None:
        row["total_cost"], row["currency"] = usage.cost, usage.currency
    row["price_per_hour"] = usage.price_per_hour
    row["cost_per_million_tokens"] = _cost_per_million(usage, row.get("tokens_per_second"))


def _cost_per_million(usage: Usage, tokens_per_second: float | None) -> float | None:
    """Of the slot by its price and speed, and of tokens; None if a part of it is not known."""
    tokens = usage.token_cost_per_million
    if usage.price_per_hour is None:
        return tokens
    slot = cost_per_million(usage.price_per_hour, tokens_per_second or 0.0)
    return None if slot is None else slot + (tokens or 0.0)


_METRICS: Mapping[str, Sequence[str]] = {
    "tokens_per_second": ("output_tokens_per_second", "tokens_per_second"),
    "total_requests": ("total_requests", "samples"),
    "error_count": ("error_count", "errors"),
}


def _rented(rental: Rental) -> Row:
    return {
        "provider": rental.account.provider,
        "gpu_type": rental.gpu,
        "session_id": rental.instance,
        "instance_ip": rental.address,
        "ssh_port": rental.port,
        "offer_id": rental.offer,
        "price_per_hour": rental.hourly / _MILLION,
        "currency": rental.currency,
        "notes": "exact" if rental.exact and rental.state == "ended" else "estimated",
    }


def _unused(rental: Rental) -> Row:
    """A rental on which nothing ran, such as one that failed."""
    failure = rental.failure or {}
    return {
        **_rented(rental),
        "id": rental.id,
        "run_id": rental.owner,
        "worker_id": rental.owner,
        "created_at": rental.intended_at,
        "started_at": None,
        "completed_at": None,
        "status": rental.state,
        "failure_reason": failure.get("kind"),
        "failure_stage": failure.get("stage"),
        "error_message": failure.get("message"),
        "notes": rental.why,
        "total_cost": None if rental.is_open else rental.cost / _MILLION,
    }


def _share(cost: int, rows: Sequence[Row]) -> None:
    """Share a rental's cost over its attempts by their time, by largest remainder."""
    times = [
        max(0, int(((row["completed_at"] or 0.0) - row["started_at"]) * _SHARES)) for row in rows
    ]
    weights = times if sum(times) else [1] * len(rows)
    total = sum(weights)
    parts = [cost * weight // total for weight in weights]
    order = sorted(range(len(rows)), key=lambda n: -(cost * weights[n] % total))
    for number in order[: cost - sum(parts)]:
        parts[number] += 1
    for row, part in zip(rows, parts, strict=True):
        row["total_cost"] = part / _MILLION
