"""Failed cells, grouped by cause, and what to run after the fix."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchfleet.campaign.base import RESULTS, results_folder
from benchfleet.dashboard.model import ReadModel
from benchfleet.dashboard.rows import Row
from benchfleet.dashboard.views.sorting import in_order
from benchfleet.ledger.addresses import display_url
from benchfleet.reports.failures import (
    FAILED_STATES,
    NO_REASON,
    Cause,
    by_cause,
    cause_of,
)
from benchfleet.study import Study

_MIN_SHARE_TO_NAME = 0.8  # of a group's cells on one host, or with one name of an axis
_MIN_CELLS_TO_NAME = 3


@dataclass(frozen=True, kw_only=True)
class FailureGroup(Cause):
    """Cells that failed for the same reason."""

    id: str  # what addresses call it
    message: str  # of one of them
    rows: Sequence[Row]
    first_at: float  # seconds since the epoch; 0: not known
    last_at: float
    concentrated: str  # "all on lab2, 9 of 10 with int8"; "" where they are spread
    host: str  # that they are concentrated on; ""

    @property
    def count(self) -> int:
        return len(self.rows)


def failure_groups(model: ReadModel) -> list[FailureGroup]:
    """The groups, the largest first; the lock of the model is held."""
    if not any(model.counts.get(state) for state in FAILED_STATES):
        return []
    failed = ((_cause(row), row) for row in model.rows if row.state in FAILED_STATES)
    return [_group(cause, rows, model) for cause, rows in by_cause(failed)]


def needs_trust(study: Study, group: FailureGroup) -> bool:
    """Whether `command_of` has to say that the ledger's code may run."""
    runs = any(verb == "run" for verb, _ in group.verbs)
    return runs and study.campaign.file is None and any(row.names_code for row in group.rows)


def command_of(study: Study, group: FailureGroup) -> str:
    """What to run after the fix, as a person at the dashboard's folder would type it."""
    file, root = study.campaign.file, study.layout.root
    where = [_display_path(file)] if file else []
    if root != results_folder(study.campaign.folder or Path.cwd(), RESULTS, study.campaign.name):
        where += ["--results", _display_path(root.parent)]
    if study.url:
        where += ["--ledger", display_url(study.url)]
    if file is None:
        where += ["--campaign", study.campaign.name]
    commands = []
    for verb, kinds in group.verbs:
        trust = ["--trust-campaign"] if verb == "run" and needs_trust(study, group) else []
        verb = "work" if verb == "run" and file is None else verb
        chosen = [word for kind in kinds or () for word in ("--kind", kind)]
        commands.append(shlex.join(["benchfleet", verb, *where, *trust, *chosen]))
    return " && ".join(commands)


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


def _cause(row: Row) -> Cause:
    return cause_of(
        row.state,
        row.stage,
        row.kind,
        row.message,
        retryable=row.retryable,
        own_code=row.own_code,
    )


def _display_path(path: Path) -> str:
    """The path as seen from here, where it lies below."""
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)


def _group(cause: Cause, rows: list[Row], model: ReadModel) -> FailureGroup:
    times = [row.changed_at for row in rows if row.changed_at]
    text, host = _concentrated(rows, model)
    return FailureGroup(
        **vars(cause),
        id=hashlib.sha256(repr(cause).encode("utf-8", "replace")).hexdigest()[:16],
        message=rows[0].message or NO_REASON,
        rows=rows,
        first_at=min(times, default=0.0),
        last_at=max(times, default=0.0),
        concentrated=text,
        host=host,
    )


def _concentrated(rows: Sequence[Row], model: ReadModel) -> tuple[str, str]:
    """The host, config, model and benchmark that have nearly all of these cells, though there are
    more of them: in words, and the host."""
    if len(rows) < _MIN_CELLS_TO_NAME:
        return "", ""
    hosts = model.fleet.hosts | {row.host for row in rows}
    labels = {label for _, _, label in model.tiles}
    axes = (
        ("on", "host", len(hosts - {""})),
        ("with", "config", len(model.axes["config"])),
        ("of", "model", len(model.axes["model"])),
        ("in", "label", len(labels)),  # with its subset
        ("in", "benchmark", len(model.axes["benchmark"])),
    )
    named: dict[str, tuple[str, str]] = {}  # by the word
    for word, axis, different in axes:
        name, count = Counter(getattr(row, axis) for row in rows).most_common(1)[0]
        if name and different > 1 and count >= _MIN_SHARE_TO_NAME * len(rows):
            how_many = "all" if count == len(rows) else f"{count} of {len(rows)}"
            named.setdefault(word, (f"{how_many} {word} {name}", name))
    return ", ".join(text for text, _ in named.values()), named.get("on", ("", ""))[1]
