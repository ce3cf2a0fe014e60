"""A campaign held against its ledger and this machine: what each cell is in for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.names import folders_above
from benchfleet.domain.placement import Placement
from benchfleet.domain.resource import DEFAULT_ENDPOINT_SLOTS
from benchfleet.domain.state import State
from benchfleet.machines.memory import Estimate
from benchfleet.planner.explain import Named
from benchfleet.planner.forecast import Fit, MemoryForecast, fit, wall_time
from benchfleet.planner.token_costs import CostRange, TokenCosts, TokenForecast
from benchfleet.runner.resources.shapes import Pool, impossible
from benchfleet.runner.scheduler.duration_model import DurationModel, Expected
from benchfleet.study import Study

Standing = Literal[State, "reused", "cached"]
ENDED_OTHERWISE: tuple[State, ...] = ("partial", "failed", "skipped", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One cell, and what a run would do with it."""

    cell: Cell
    path: str  # as allotted, or as it will be
    state: Standing  # reused: it ended well before; cached: its result cache has a result
    impossible: str  # why nothing here can ever run it; "" where something can
    memory: Estimate | str  # or why it is not known
    expected: Expected | None  # None where nobody knows
    token_cost: CostRange | None = None  # None if it has no price, or nothing is known

    @property
    def to_run(self) -> bool:
        return self.state in ("pending", "running") and not self.impossible

    @property
    def bytes_on_a_device(self) -> int | None:
        """What was declared, else what is estimated; None where neither is."""
        if self.cell.need.vram:
            return self.cell.need.vram
        if isinstance(self.memory, str):
            return None
        return self.memory.total // max(1, self.cell.need.gpus)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that `benchfleet plan` tells."""

    rows: Sequence[Row]
    pool: Pool | None  # None where the devices asked for are not here
    endpoint_slots: int  # cells at a time that ask one server elsewhere
    ram: int  # bytes that the machine can still give
    fit: Fit | None
    seconds: float | None  # of a run with the suggested concurrency; None where nothing is known
    unknown: int  # cells to run of whose time nothing is known
    token_costs: TokenCosts  # of the cells to run

    @property
    def to_run(self) -> list[Row]:
        return [row for row in self.rows if row.to_run]

    @property
    def endpoints(self) -> list[str]:
        """The servers elsewhere that its cells ask."""
        return sorted({row.cell.need.endpoint for row in self.rows} - {""})

    @property
    def counts(self) -> dict[str, int]:
        """How many cells there are of each kind."""
        states = [row.state for row in self.rows]
        return {
            "total": len(self.rows),
            "reused": states.count("reused"),
            "cached": states.count("cached"),
            "to_run": len(self.to_run),
            "impossible": sum(bool(row.impossible) for row in self.rows),
            **{state: states.count(state) for state in ENDED_OTHERWISE},
        }


def known_records(study: Study, cells: Collection[Cell]) -> list[CellRecord]:
    """All that the ledger has, with the cell itself where the campaign holds no such cell."""
    ledger = study.open_existing_ledger()
    if ledger is None:
        return []
    with closing(ledger):
        ours = {cell.fingerprint for cell in cells}
        others = {record.fingerprint for record in ledger.cells()} - ours
        whole = {r.fingerprint: r for r in ledger.cells(fingerprints=others, with_cell=True)}
        records = [whole.get(record.fingerprint, record) for record in ledger.cells()]
        return study.race(ledger).as_skipped(records)


def planned(
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    pool: Pool | None,
    *,
    missing: str = "",
    ram: int,
    cores: int,
    endpoint_slots: int = DEFAULT_ENDPOINT_SLOTS,
    placement: Placement = Placement(),  # noqa: B008 - frozen
    cached: Collection[str] = (),
    excluded: Mapping[str, str] = {},
) -> Plan:
    """The plan for the cells on a machine with so many bytes of RAM free, and so many cores;
    `missing` says why there is no pool, and `placement` what this machine (``""``) may have;
    `cached` are the pending cells, by fingerprint, that a run takes from its result cache;
    `excluded` are those that the campaign keeps from this host, each with the reason."""
    known_records = {record.fingerprint: record for record in records}
    ours = {cell.fingerprint: cell for cell in cells}
    times = DurationModel(
        (cell, record.outcome)
        for record in records
        if record.outcome and record.state == "success"
        if (cell := record.cell or ours.get(record.fingerprint))
    )
    tokens = TokenForecast(records, ours)
    memory = MemoryForecast(pool.devices[0].kind if pool else "cpu")
    rows = []
    for named in with_paths(cells, records):
        record = known_records.get(named.cell.fingerprint)
        state: Standing = record.state if record else "pending"
        if state == "pending" and named.cell.fingerprint in cached:
            state = "cached"
        is_open = state in ("pending", "running")
        reason = ""
        if is_open and not (reason := excluded.get(str(named.cell.fingerprint), "")):
            why = placement.why_not(named.cell)
            reason = impossible(named.cell.need, [pool], why) if pool else why.get("", missing)
        rows.append(
            Row(
                cell=named.cell,
                path=named.path,
                state="reused" if state == "success" else state,
                impossible=reason,
                memory=memory.of(named.cell),
                expected=times.expected(named.cell, _device_type(named.cell, pool)),
                token_cost=tokens.of(named.cell),
            )
        )
    remaining = [row for row in rows if row.to_run]
    demands = [(row.cell, row.bytes_on_a_device) for row in remaining]
    fitting = fit(pool, demands, ram=ram, cores=cores) if pool else None
    return Plan(
        rows=rows,
        pool=pool,
        endpoint_slots=endpoint_slots,
        ram=ram,
        fit=fitting,
        seconds=_seconds(remaining, times, pool, fitting.slots, endpoint_slots)
        if pool and fitting
        else None,
        unknown=sum(row.expected is None for row in remaining),
        token_costs=tokens.total(row.cell for row in remaining),
    )


def _seconds(
    rows: Sequence[Row], times: DurationModel, pool: Pool, slots: int, endpoint_slots: int
) -> float | None:
    """The wall time of a run: cells on each endpoint run beside those in slots."""
    ends = []
    for endpoint in sorted({row.cell.need.endpoint for row in rows}):
        at_once = endpoint_slots if endpoint else slots
        group = [row for row in rows if row.cell.need.endpoint == endpoint]
        if expected := [row.expected for row in group if row.expected]:
            models = {row.cell.model.name: row.cell for row in group}
            loads = [times.load(name, _device_type(cell, pool)) for name, cell in models.items()]
            ends.append(wall_time(expected, loads, at_once))
    return max(ends, default=None)


def _device_type(cell: Cell, pool: Pool | None) -> str:
    if cell.need.endpoint:
        return "endpoint"
    return pool.devices[0].type if pool else ""


def with_paths(cells: Sequence[Cell], records: Sequence[CellRecord]) -> Iterator[Named]:
    """Each cell with its path: as the ledger allotted it, or as it would at enrolment."""
    allotted = {record.fingerprint: record.path for record in records}
    used = set(allotted.values())
    above = {parent for path in used for parent in folders_above(path)}
    for cell in cells:
        path = allotted.get(cell.fingerprint)
        if path is None:
            path = cell.path(marked=False)
            if path in used or path in above or not used.isdisjoint(folders_above(path)):
                path = cell.path(marked=True)
            used.add(path)
            above.update(folders_above(path))
        yield Named(cell=cell, path=path)


def as_json(study: Study, plan: Plan) -> dict[str, Any]:
    """All of it as JSON values; sizes are bytes, times are seconds."""
    return {
        "campaign": study.campaign.name,
        "results": str(study.layout.root),
        "machine": {
            "devices": [
                {"device": device.label, "name": device.name, "memory": device.memory}
                for device in (plan.pool.devices if plan.pool else ())
            ],
            "slots": plan.pool.slots if plan.pool else 0,
            "endpoints": dict.fromkeys(plan.endpoints, plan.endpoint_slots),
            "memory_available": plan.ram,
        },
        "placement": study.campaign.placement,
        "counts": plan.counts,
        "cells": [_row_as_json(row) for row in plan.rows],
        "expected_seconds": plan.seconds,
        "cells_of_unknown_time": plan.unknown,
        "expected_token_costs": {
            "ranges": [asdict(one) for one in plan.token_costs.ranges],
            "cells": plan.token_costs.cells,
            "cells_of_unknown_cost": plan.token_costs.unknown,
        },
        "suggestion": {"max_concurrent_runs": plan.fit.slots, "why": plan.fit.why}
        if plan.fit
        else None,
        "warnings": list(plan.fit.warnings) if plan.fit else [],
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    estimate = row.memory if isinstance(row.memory, Estimate) else None
    return {
        "cell": row.path,
        "state": row.state,
        "fingerprint": row.cell.fingerprint,
        "phase": row.cell.phase,
        "needs": {n: value for n, value in vars(row.cell.need).items() if n != "hardware"},
        "hardware": [asdict(one) for one in row.cell.hardware],
        "memory": {"total": estimate.total, **vars(estimate)} if estimate else None,
        "memory_unknown": row.memory if isinstance(row.memory, str) else "",
        "expected": {
            "seconds": row.expected.seconds,
            "like": row.expected.like,
            "cells": row.expected.cells,
        }
        if row.expected
        else None,
        "token_cost": asdict(row.token_cost) if row.token_cost else None,
        "impossible": row.impossible,
    }
