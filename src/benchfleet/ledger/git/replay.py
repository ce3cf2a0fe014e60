"""Applies the facts of the logs to the mirror, in the order of each cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchfleet.ledger.git.log import Enrolment, Fact, lease_seconds
from benchfleet.ledger.git.mirror import Writer
from benchfleet.ledger.named_queries import Execute

Act = Callable[[Execute, int, Fact, float, float], object]  # ordinal, fact, now, own lease


def claim_state(execute: Execute, fingerprint: str) -> tuple[int, str, str]:
    """The turn of a cell, the commit of that, and what its ref points to."""
    row = execute("claim_ref", fingerprint=fingerprint).fetchone()
    return (0, "", "") if row is None else tuple(row)


def ids_of(execute: Execute, facts: Sequence[Fact]) -> dict[str, str]:
    """The readable ids of the cells that facts are about."""
    ids = {}
    for fingerprint in dict.fromkeys(fact.fingerprint for fact in facts):
        if row := execute("id_of", fingerprint=fingerprint).fetchone():
            ids[fingerprint] = row[0]
    return ids


def add_enrolment(writer: Writer, enrolment: Enrolment, *, event: bool = True) -> None:
    """Add the cells of an enrolment, and its `event`."""
    execute, execute_many = writer.execute, writer.execute_many
    last: int = execute("last_ordinal").fetchone()[0]
    ordinals = range(last + 1, last + 1 + len(enrolment.cells))
    execute_many(
        "add_cell",
        (
            {
                "ordinal": ordinal, "fingerprint": cell.fingerprint, "id": cell.id,
                "path": cell.path,
            }
            for ordinal, cell in zip(ordinals, enrolment.cells, strict=True)
        ),
    )  # fmt: skip
    execute_many(
        "add_spec",
        (
            {"ordinal": ordinal, "spec": cell.spec, "terms": cell.terms}
            for ordinal, cell in zip(ordinals, enrolment.cells, strict=True)
        ),
    )
    for changed in enrolment.changed:
        if row := execute("cell_state", fingerprint=changed.fingerprint).fetchone():
            execute("change_terms", ordinal=row[0], terms=changed.terms)
    if event:
        append(execute, enrolment.fact)


def can_apply(execute: Execute, facts: Sequence[Fact]) -> bool:
    """Whether all earlier facts about these cells were applied."""
    turns: dict[str, int] = {}
    for fact in facts:
        if fact.turn:
            turn = turns.get(fact.fingerprint)
            if turn is None:
                if (
                    fact.kind in ACTS
                    and not execute("cell_state", fingerprint=fact.fingerprint).fetchone()
                ):
                    return False
                turn = claim_state(execute, fact.fingerprint)[0]
            if fact.turn > turn + 1:
                return False
            turns[fact.fingerprint] = max(turn, fact.turn)
    return True


def apply(
    execute: Execute, facts: Sequence[Fact], commit: str, *, now: float, lease: float
) -> None:
    """Apply the facts of a commit; `lease` is the length of those whose claim names none. The
    second fact with one turn is void: a remote that died while it changed refs may have given a
    cell to two, of which one can finish it."""
    for fact in facts:
        if fact.turn:
            if fact.turn <= claim_state(execute, fact.fingerprint)[0]:
                continue
            if act := ACTS.get(fact.kind):  # the other kinds are about a subject
                ordinal = execute("cell_state", fingerprint=fact.fingerprint).fetchone()[0]
                act(execute, ordinal, fact, now, lease)
            execute(
                "set_claim_ref",
                fingerprint=fact.fingerprint,
                turn=fact.turn,
                base=commit,
                object=commit,
            )
        append(execute, fact)


def restart_leases(execute: Execute, *, now: float, lease: float) -> None:
    """Let the lease of each running cell begin now, with the length that its claim names."""
    for fingerprint, claim in execute("running_claims").fetchall():
        seconds = lease_seconds(json.loads(claim), lease) if claim else lease
        execute("extend", fingerprint=fingerprint, expires=now + seconds)


def append(execute: Execute, fact: Fact) -> None:
    """Add a fact to the events of the mirror."""
    execute(
        "add_event", at=fact.at, kind=fact.kind, fingerprint=fact.fingerprint,
        data=json.dumps(fact.data),
    )  # fmt: skip


def _claimed(execute: Execute, ordinal: int, fact: Fact, now: float, lease: float) -> None:
    data = fact.data
    execute(
        "claim_cell", ordinal=ordinal, attempt=int(data["attempt"]), token=int(data["token"]),
        runner=str(data["runner"]), expires=now + lease_seconds(data, lease),
    )  # fmt: skip


def _finished(execute: Execute, ordinal: int, fact: Fact, now: float, lease: float) -> None:
    outcome: Mapping[str, Any] = fact.data["outcome"]
    retry = outcome["retry_in"]
    execute(
        "finish", ordinal=ordinal, token=int(fact.data["token"]), charged=int(outcome["charged"]),
        state="pending" if retry is not None else outcome["state"],
        ready=now + retry if retry else None,
    )  # fmt: skip


def _stating(name: str) -> Act:
    """One statement about the cell, whatever else the fact says."""
    return lambda execute, ordinal, fact, now, lease: execute(
        name, ordinal=ordinal, fingerprint=fact.fingerprint
    )


ACTS: dict[str, Act] = {
    "claimed": _claimed,
    "finished": _finished,
    "released": _stating("release"),
    "reaped": _stating("reap"),
    "retry_asked": _stating("retry"),
    "cancel_asked": _stating("cancel"),
}
