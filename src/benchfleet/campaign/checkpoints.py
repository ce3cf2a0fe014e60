"""A series of checkpoints of one model: an entry of ``models`` that stands for many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .base import absolute
from .entry import Entry
from .schema_types import TEXT, Shape, doc, whole
from .series import LAST_NUMBER, CheckpointSeries

NO_CHECKPOINT = "no complete checkpoint matches"  # how the mistake begins that waiting fixes
KEYS: Mapping[str, Shape] = {
    "checkpoints": doc(
        TEXT, "a glob of folders, or NAME@GLOB for a hub's revisions: an entry for each of them"
    ),
    "step": doc(TEXT, r"a regular expression whose first group is the step, such as step-(\d+)"),
    "every": doc(whole(1), "only checkpoints whose step this divides (1)"),
}


def read_series(
    entry: Entry, fields: Mapping[str, Entry], adapter: str, folder: Path
) -> CheckpointSeries | None:
    """The series of an entry with ``checkpoints``; None with a mistake."""
    where, step = fields["checkpoints"].text(), fields["step"].text(LAST_NUMBER)
    for key in ("path", "model", "revision", "variants"):
        if key in fields and not fields[key].absent:
            fields[key].wrong("stands beside 'checkpoints', which names what to open; remove it")
    if fields["name"].absent:
        entry.wrong("has no name; write {name: …, checkpoints: …}")
    try:
        if re.compile(step).groups < 1:
            fields["step"].wrong(r"has no group for the number; write step-(\d+)")
    except re.error as error:
        fields["step"].wrong(f"{step!r} is no regular expression ({error})")
    every = fields["every"].whole(1)
    if not entry.right or not where:
        return None
    if "@" not in where:
        where = str(absolute(folder, where))
    return CheckpointSeries(adapter=adapter, where=where, step=step, every=every)


def entries_of(series: CheckpointSeries, entry: Entry) -> list[tuple[int, Entry]]:
    """An entry for each complete checkpoint, with its step, the newest first; each with a larger
    priority than the one before it."""
    try:
        sources = series.sources()
    except ValueError as error:
        entry.wrong(str(error))
        return []
    if not sources:
        entry.wrong(f"{NO_CHECKPOINT} {series.where} yet; `run --watch` waits for one")
    shared = {key: value for key, value in entry.value.items() if key not in KEYS}
    base = shared.get("priority", 0)
    entries = []
    for number, (step, source) in enumerate(sources.items()):
        value: dict[str, Any] = {**shared, "name": f"{shared['name']}-{step}"}
        value["priority"] = base + number if isinstance(base, int) else base
        name, at, revision = source.partition("@")
        is_revision = bool(series.hub_name and at)
        value |= {"model": name, "revision": revision} if is_revision else {"path": source}
        entries.append((step, entry.like(value)))
    return entries[::-1]
