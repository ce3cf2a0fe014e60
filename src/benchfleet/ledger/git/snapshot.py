"""Snapshots of a ledger in git: a new machine reads one instead of the whole history.

A snapshot is a commit without parents at ``refs/benchfleet/<campaign>/state/<events>``. Its message
names the commit of each log up to which it goes. Its tree has the state of the cells, all events,
and the turns of the subjects, as lines. The cells themselves are in the enrolments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchfleet.errors import LedgerDamaged
from benchfleet.git.objects import Commit, Objects
from benchfleet.ledger.git.address import Refs
from benchfleet.ledger.git.log import compressed, lines_of, payload
from benchfleet.ledger.git.mirror import Writer
from benchfleet.ledger.git.replay import restart_leases
from benchfleet.ledger.named_queries import Execute

MIN_EVENTS = 2000  # a shorter history is read as quickly
GROWTH = 1.25  # times as many events as the newest snapshot has
_LINES_PER_FILE = 20_000
_STANDING = (
    *("ordinal", "fingerprint", "state", "ready", "attempt", "tries", "token", "ended_token"),
    *("runner", "outcome", "turn", "base"),
)


def newest_snapshot(refs: Refs, seen: Mapping[str, str]) -> tuple[int, str]:
    """How many events the newest snapshot has, and its commit; 0 and "" where there is none."""
    snapshots = {
        int(ref.removeprefix(refs.snapshots)): oid
        for ref, oid in seen.items()
        if ref.startswith(refs.snapshots) and ref.removeprefix(refs.snapshots).isdecimal()
    }
    return max(snapshots.items(), default=(0, ""))


def tips_of(commit: Commit) -> dict[str, str]:
    """The tips up to which a snapshot goes. Raises LedgerDamaged."""
    tips = payload(commit).get("tips")
    if not isinstance(tips, dict):
        raise LedgerDamaged(f"the commit {commit.oid} is not a snapshot of a ledger")
    return {str(ref): str(oid) for ref, oid in tips.items()}


def write_snapshot(objects: Objects, execute: Execute, *, now: float) -> str:
    """Write the state of all cells and all events; the tree."""
    files = {}
    for name, lines in (
        ("cells", _cells(execute, now)),
        ("events", _events(execute)),
        ("subjects", _subjects(execute)),
    ):
        for number, some in enumerate(_batches(lines)):
            files[f"{name}-{number:05}.gz"] = objects.blob(compressed(some)), False
    return objects.tree(files)


def read_snapshot(
    objects: Objects, writer: Writer, snapshot: str, *, now: float, lease: float
) -> None:
    """Enter what a snapshot has into the mirror; leases begin now. Raises LedgerDamaged."""
    execute_many = writer.execute_many
    try:
        files = sorted(objects.entries(objects.commit_of(snapshot).tree), reverse=True)
        for name, (blob, _) in files:  # the events first: cells name the one of their outcome
            lines = lines_of(objects.read(blob)[1])
            if name.startswith("events-"):
                execute_many("restore_event", map(_event_row, lines))
            elif name.startswith("subjects-"):
                execute_many("set_claim_ref", map(_subject_row, lines))
            elif name.startswith("cells-"):
                rows = [_cell_row(json.loads(line), now) for line in lines]
                execute_many("restore_cell", rows)
                execute_many(
                    "set_claim_ref", ({**row, "object": ""} for row in rows)
                )  # refs are seen next
        restart_leases(writer.execute, now=now, lease=lease)
    except (ValueError, LookupError, TypeError) as error:
        raise LedgerDamaged(f"the snapshot {snapshot} cannot be read: {error}") from error


def _cells(execute: Execute, now: float) -> Iterator[str]:
    for row in execute("snapshot_cells"):
        values = dict(zip(_STANDING, row, strict=True))
        if values["ready"] is not None:
            values["ready"] = max(0.0, values["ready"] - now)
        yield json.dumps(list(values.values()))


def _events(execute: Execute) -> Iterator[str]:
    for seq, at, kind, fingerprint, data in execute("events_after", seq=0):
        yield f"{seq}\t{at!r}\t{kind}\t{fingerprint}\t{data}"


def _subjects(execute: Execute) -> Iterator[str]:
    return (json.dumps(row) for row in execute("snapshot_subjects"))


def _subject_row(line: str) -> dict[str, Any]:
    subject, turn, base = json.loads(line)
    return {"fingerprint": subject, "turn": turn, "base": base, "object": ""}


def _cell_row(row: list[Any], now: float) -> dict[str, Any]:
    values = dict(zip(_STANDING, row, strict=True))
    if values["ready"] is not None:
        values["ready"] += now
    return values


def _event_row(line: str) -> dict[str, Any]:
    seq, at, kind, fingerprint, data = line.split("\t", 4)
    values = {"kind": kind, "fingerprint": fingerprint, "data": data}
    return {"seq": int(seq), "at": float(at), **values}


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == _LINES_PER_FILE:
            yield some
            some = []
    if some:
        yield some
