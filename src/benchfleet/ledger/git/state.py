"""All that a ledger in git knows as one tree: what a machine that comes new reads instead of every
commit since the beginning.

A state is a commit without parents at ``refs/benchfleet/<campaign>/state/<events>``. Its message
names the commit of each log up to which it tells; its tree has how the cells stand and all events,
as lines. The cells themselves are in the enrolments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchfleet.errors import LedgerDamaged
from benchfleet.git.objects import Commit, Objects
from benchfleet.ledger.git.address import Refs
from benchfleet.ledger.git.log import lines_of, squeezed, told
from benchfleet.ledger.git.mirror import Many
from benchfleet.ledger.statements import Do

LEAST = 2000  # events; a shorter history is read as quickly
GROWN = 1.25  # times as many events as the newest state tells
_TOGETHER = 20_000  # lines in one file
_STANDING = (
    *("ordinal", "fingerprint", "state", "ready", "attempt", "tries", "token", "ended_token"),
    *("runner", "outcome", "turn", "base"),
)


def newest_state(refs: Refs, seen: Mapping[str, str]) -> tuple[int, str]:
    """Of how many events the newest state tells, and its commit; 0 and "" where there is none."""
    states = {
        int(ref.removeprefix(refs.states)): oid
        for ref, oid in seen.items()
        if ref.startswith(refs.states) and ref.removeprefix(refs.states).isdecimal()
    }
    return max(states.items(), default=(0, ""))


def state_of(commit: Commit) -> dict[str, str]:
    """The tips up to which a state tells. Raises LedgerDamaged."""
    tips = told(commit).get("tips")
    if not isinstance(tips, dict):
        raise LedgerDamaged(f"the commit {commit.oid} is no state of a ledger")
    return {str(ref): str(oid) for ref, oid in tips.items()}


def write_state(objects: Objects, do: Do, *, now: float) -> str:
    """Write down how all stands; the tree."""
    files = {}
    for name, lines in (("cells", _cells(do, now)), ("events", _events(do))):
        for number, some in enumerate(_batches(lines)):
            files[f"{name}-{number:05}.gz"] = objects.blob(squeezed(some)), False
    return objects.tree(files)


def read_state(objects: Objects, many: Many, state: str, *, now: float, lease: float) -> None:
    """Let all stand here as a state tells. Raises LedgerDamaged."""
    try:
        files = sorted(objects.entries(objects.commit_of(state).tree), reverse=True)
        for name, (blob, _) in files:  # the events first: cells name the one of their outcome
            lines = lines_of(objects.read(blob)[1])
            if name.startswith("events-"):
                many("happen", map(_happened, lines))
            else:
                rows = [_stood(json.loads(line), now, lease) for line in lines]
                many("stand_cell", rows)
                many("stand", ({**row, "object": ""} for row in rows))  # refs are seen next
    except (ValueError, LookupError, TypeError) as error:
        raise LedgerDamaged(f"the state {state} cannot be read: {error}") from error


def _cells(do: Do, now: float) -> Iterator[str]:
    for row in do("state_cells"):
        values = dict(zip(_STANDING, row, strict=True))
        if values["ready"] is not None:
            values["ready"] = max(0.0, values["ready"] - now)
        yield json.dumps(list(values.values()))


def _events(do: Do) -> Iterator[str]:
    for seq, at, kind, fingerprint, data in do("events_after", seq=0):
        yield f"{seq}\t{at!r}\t{kind}\t{fingerprint}\t{data}"


def _stood(row: list[Any], now: float, lease: float) -> dict[str, Any]:
    values = dict(zip(_STANDING, row, strict=True))
    if values["ready"] is not None:
        values["ready"] += now
    return {**values, "expires": now + lease if values["state"] == "running" else None}


def _happened(line: str) -> dict[str, Any]:
    seq, at, kind, fingerprint, data = line.split("\t", 4)
    values = {"kind": kind, "fingerprint": fingerprint, "data": data}
    return {"seq": int(seq), "at": float(at), **values}


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == _TOGETHER:
            yield some
            some = []
    if some:
        yield some
