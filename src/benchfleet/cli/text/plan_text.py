"""A plan, and what makes a cell a new one, as lines for a terminal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchfleet.cli.text.terminal import columns, padded
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.humanize import counted, duration, examples, gigabytes
from benchfleet.planner.explain import ABSENT, Difference, Named, subject
from benchfleet.planner.preview import ENDED_OTHERWISE, Plan, Row
from benchfleet.planner.server_commands import server_commands
from benchfleet.planner.token_costs import TokenCosts
from benchfleet.reports.spending import amount
from benchfleet.runner.resources.shapes import Pool
from benchfleet.study import Study

_MAX_ROWS = 40  # lines of a table that a person still reads
_MAX_NAMES = 3  # names in a sentence
# From the finest grouping to the coarsest; the first that fits is taken.
_GROUPINGS: tuple[tuple[str, ...], ...] = (
    ("model", "config", "benchmark"),
    ("model", "benchmark"),
    ("model", "config"),
    ("model",),
)


def overview(
    study: Study, plan: Plan, phases: Iterable[str] = (), *, every_cell: bool
) -> list[str]:
    """The whole plan: machine, phases, cells, what cannot run, and what to expect."""
    counts = plan.counts
    spoken = [
        counted(counts["total"], "cell"),
        f"{counts['to_run']} to run",
        f"{counts['reused']} reused",
    ]
    spoken += [f"{counts['cached']} in the result cache"] if counts["cached"] else []
    spoken += [f"{counts[state]} {state}" for state in ENDED_OTHERWISE if counts[state]]
    spoken += [f"{counts['impossible']} cannot run here"] if counts["impossible"] else []
    whole = every_cell or counts["total"] <= _MAX_ROWS
    lines = [f"{study.campaign.name}: {' · '.join(spoken)} → {study.layout.root}"]
    lines += [f"on {_machine(plan, plan.pool)}"] if plan.pool else []
    return [
        *lines,
        *phases,
        "",
        *(_cells(plan.rows) if whole else _groups(plan.rows)),
        *_judges(plan.rows),
        *_impossible(plan.rows),
        *_servers(plan.rows),
        *_forecast(study, plan),
    ]


def _judges(rows: Sequence[Row]) -> Iterator[str]:
    """The answers to be judged, whose judges have no cells yet."""
    judged = sum(bool(row.cell.workload.judge) for row in rows if row.to_run)
    if judged:
        cells = counted(judged, "cell")
        yield f"judges grade {cells} of these, in cells of their own that follow"


def _machine(plan: Plan, pool: Pool) -> str:
    kinds = Counter((d.kind, d.name, d.memory) for d in pool.devices)
    named = [
        f"{many} × {name or 'GPU'} with {gigabytes(memory)}"
        if kind == "gpu"
        else f"{counted(many, 'CPU slot')}, {gigabytes(plan.ram)} of memory free"
        for (kind, name, memory), many in kinds.items()
    ]
    most = "up to " if pool.begin else ""
    at_once = _at_once(plan, plan.rows, f"{most}{pool.slots} at a time")
    return f"{', '.join(named)}; {at_once}"


def _at_once(plan: Plan, rows: Sequence[Row], in_slots: str) -> str:
    """What of these runs at the same time: cells in slots, as `in_slots` says it, and cells that
    ask servers elsewhere."""
    servers = {row.cell.need.endpoint for row in rows}
    parts = [in_slots] if "" in servers else []
    if elsewhere := len(servers - {""}):
        parts.append(f"{plan.endpoint_slots} at a time on {counted(elsewhere, 'endpoint')}")
    if elsewhere > 1:
        parts[-1] += " each"
    return ", and ".join(parts)


def _cells(rows: Sequence[Row]) -> Iterator[str]:
    phased = any(row.cell.phase for row in rows)
    yield from _table(
        ["state", *(["phase"] if phased else []), "cell", "needs", "memory", "time"],
        [
            [
                "cannot run" if row.impossible else row.state,
                *([row.cell.phase] if phased else []),
                row.path,
                _needs(row.cell),
                _memory([row]),
                _time([row]),
            ]
            for row in rows
        ],
    )


def _groups(rows: Sequence[Row]) -> Iterator[str]:
    """The rows summed up by as many axes as still fit on a page."""
    for axes in _GROUPINGS:
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            names = {
                "model": row.cell.model.name,
                "config": row.cell.config.name,
                "benchmark": row.cell.workload.name,
            }
            groups.setdefault(tuple(names[axis] for axis in axes), []).append(row)
        if len(groups) <= _MAX_ROWS:
            break
    visible = list(groups.items())[:_MAX_ROWS]
    yield from _table(
        [*axes, "cells", "to run", "reused", "other", "memory", "time"],
        [[*names, *_sums(within), _memory(within), _time(within)] for names, within in visible],
    )
    if len(groups) > len(visible):
        yield f"… and {len(groups) - len(visible)} more"
    yield "--cells lists every cell"


def _servers(rows: Sequence[Row]) -> Iterator[str]:
    """The servers that its cells start."""
    for name, line in server_commands(row.cell for row in rows).items():
        yield f"server of {name}: {line}"


def _sums(rows: Sequence[Row]) -> list[str]:
    to_run = sum(row.to_run for row in rows)
    reused = sum(row.state in ("reused", "cached") for row in rows)
    return [str(number) for number in (len(rows), to_run, reused, len(rows) - to_run - reused)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(columns, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  " + "  ".join(map(padded, row, widths))


def _needs(cell: Cell) -> str:
    if cell.need.endpoint:
        return "endpoint"
    gpus = counted(cell.need.gpus, "GPU") if cell.need.gpus else ""
    vram = gigabytes(cell.need.vram) if cell.need.vram else ""
    return " × ".join(part for part in (gpus, vram) if part) or "–"


def _memory(rows: Sequence[Row]) -> str:
    """The most that one of them takes."""
    if all(row.cell.need.endpoint for row in rows):
        return "–"
    totals = [row.memory.total for row in rows if not isinstance(row.memory, str)]
    return gigabytes(max(totals)) if totals else "unknown"


def _time(rows: Sequence[Row]) -> str:
    """What is left to run of them."""
    to_run = [row for row in rows if row.to_run]
    expected = [row.expected for row in to_run if row.expected]
    if not to_run:
        return "–"
    if not expected:
        return "unknown"
    sure = all(one.like == "same cell" for one in expected)
    text = f"{'' if sure else '≈ '}{duration(sum(one.seconds for one in expected))}"
    return text if len(expected) == len(to_run) else f"{text} + unknown"


def _impossible(rows: Sequence[Row]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.impossible:
            reasons.setdefault(row.impossible, []).append(row.path)
    if reasons:
        yield ""
        yield "cannot run here"
    for why, paths in reasons.items():
        yield f"  {why}: {examples(paths)}"


def _forecast(study: Study, plan: Plan) -> Iterator[str]:
    """What a run takes, and how many cells at a time suit the machine."""
    if not plan.to_run or plan.fit is None:
        return
    yield ""
    in_slots = [row for row in plan.to_run if not row.cell.need.endpoint]
    slots = plan.fit.slots
    if plan.seconds is None:
        yield "time     unknown: no cell like these has ended yet"
    else:
        at_once = _at_once(plan, plan.to_run, f"{slots} at a time")
        rest = f"; of {plan.unknown} more nothing is known" if plan.unknown else ""
        yield f"time     {duration(plan.seconds)} with {at_once}{rest}"
    yield from _token_costs(plan.token_costs)
    unknown = Counter(row.memory for row in in_slots if isinstance(row.memory, str))
    for why, many in unknown.most_common(_MAX_NAMES):
        yield f"memory   unknown for {many} of the cells: {why}"
    yield f"place    {study.campaign.placement}"
    if in_slots:
        yield f"suggest  max_concurrent_runs: {slots} ({plan.fit.why})"
    for warning in plan.fit.warnings:
        yield f"warning  {warning}"


def _token_costs(costs: TokenCosts) -> Iterator[str]:
    """What the tokens of served models cost."""
    if not costs.cells:
        return
    parts = []
    for one in costs.ranges:
        most = amount(one.high, one.currency)
        if one.low == one.high:
            parts.append(f"about {most}")
        elif one.low:
            parts.append(f"{amount(one.low, one.currency)} to {most}")
        else:
            parts.append(f"at most {most}")
    text = f"{' and '.join(parts)} for tokens" if parts else ""
    if costs.unknown:
        of_more = f"of {counted(costs.unknown, 'cell')} nothing is known"
        text = f"{text}; {of_more}" if text else f"unknown: {of_more}"
    yield f"cost     {text}"


def explained(
    named: Named, state: str, before: Sequence[tuple[CellRecord, Sequence[Difference]]]
) -> list[str]:
    """A cell, and what it has that earlier ones of its name had otherwise."""
    lines = [f"{named.path}  {state}  fingerprint {named.cell.fingerprint}"]
    if not before:
        lines += ["no other cell of this name is in the ledger"]
    for record, differing in before:
        lines += ["", f"{record.path}  {record.state}  fingerprint {record.fingerprint[:12]}…"]
        for one in differing:
            what = subject(one.key, named.cell)
            lines += [f"  {what} {_value_text(one.old)} → {_value_text(one.new)}"]
    return lines


def _value_text(value: Any) -> str:
    return "none" if value == ABSENT else json.dumps(value, ensure_ascii=False)
