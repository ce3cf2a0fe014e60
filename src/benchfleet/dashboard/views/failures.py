"""Failed cells, grouped by stage, kind and message."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.sorting import in_order
from benchfleet.reports.failures import failure_pattern, in_scoring, way_out

FAILED_STATES = ("failed", "partial")
_MIN_SHARE_TO_NAME = 0.8  # of a group's cells on one host or config
_MIN_CELLS_TO_NAME = 3


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Cells that failed for the same reason."""

    id: str  # what addresses call it
    stage: str
    kind: str
    message: str  # of one of them
    way_out: str
    command: str  # to run after that, where FILE is the campaign's file
    rows: Sequence[Row]
    first_at: float  # seconds since the epoch; 0: not known
    last_at: float
    concentrated: str  # "all on lab2", "9 of 10 with int8"; "" where they are spread
    host: str  # that they are concentrated on; ""

    @property
    def count(self) -> int:
        return len(self.rows)


def failure_groups(model: ReadModel) -> list[FailureGroup]:
    """The groups, the largest first; the lock of the model is held."""
    if not any(model.counts.get(state) for state in FAILED_STATES):
        return []
    members: dict[tuple[str, str, str], list[Row]] = {}
    for row in model.rows:
        if row.state in FAILED_STATES:
            key = (row.stage, row.kind, failure_pattern(row.message))
            members.setdefault(key, []).append(row)
    groups = [_group(key, rows, model) for key, rows in members.items()]
    return sorted(groups, key=lambda group: (-group.count, group.id))


def rows_after_retry(model: ReadModel, most: int) -> tuple[list[Row], int]:
    """The cells that are done after more than one attempt, the last ones first, and how many there
    are; the lock of the model is held."""
    rows = [row for row in model.rows if row.attempt > 1 and row.state == "success"]
    return in_order(rows, "-changed_at")[:most], len(rows)


def rows_before_retry(model: ReadModel, most: int) -> list[Row]:
    """The cells that failed and are tried again, the last ones first; the lock of the model is
    held."""
    if not model.counts.get("retrying"):
        return []
    rows = [row for row in model.rows if row.state == "retrying"]
    return in_order(rows, "-changed_at")[:most]


def _group(key: tuple[str, str, str], rows: list[Row], model: ReadModel) -> FailureGroup:
    times = [row.changed_at for row in rows if row.changed_at]
    stage, kind, _ = key
    text, host = _concentrated(rows, model)
    scoring = all(in_scoring(row.state, row.stage, row.kind) for row in rows)
    return FailureGroup(
        id=hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()[:16],
        stage=stage or "unknown",
        kind=kind or "error",
        message=rows[0].message or "no reason was recorded",
        way_out=way_out(stage, kind, scoring=scoring),
        command=_command(kind, scoring=scoring),
        rows=rows,
        first_at=min(times, default=0.0),
        last_at=max(times, default=0.0),
        concentrated=text,
        host=host,
    )


def _command(kind: str, *, scoring: bool) -> str:
    """What to run after the fix."""
    if scoring:
        return "benchfleet rescore FILE"
    chosen = f" --kind {shlex.quote(kind)}" if kind else ""
    return f"benchfleet retry FILE{chosen} && benchfleet run FILE"


def _concentrated(rows: Sequence[Row], model: ReadModel) -> tuple[str, str]:
    """The host, config or model that has nearly all of these cells, though there are more: in
    words, and the host."""
    if len(rows) < _MIN_CELLS_TO_NAME:
        return "", ""
    hosts = model.fleet.hosts | {row.host for row in rows}
    axes = (
        ("on", [row.host for row in rows], len(hosts - {""})),
        ("with", [row.config for row in rows], len({key[1] for key in model.tiles})),
        ("of", [row.model for row in rows], len({key[0] for key in model.tiles})),
    )
    for word, names, different in axes:
        name, count = Counter(names).most_common(1)[0]
        if name and different > 1 and count >= _MIN_SHARE_TO_NAME * len(rows):
            how_many = "all" if count == len(rows) else f"{count} of {len(rows)}"
            return f"{how_many} {word} {name}", name if word == "on" else ""
    return "", ""
