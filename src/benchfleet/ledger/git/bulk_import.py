"""Imports another ledger into a git repository, as if its history had happened there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.cell import Fingerprint
from benchfleet.domain.humanize import counted
from benchfleet.domain.progress_callback import ProgressCallback
from benchfleet.errors import LedgerError
from benchfleet.git.objects import EMPTY_TREE
from benchfleet.git.remote import RefUpdate
from benchfleet.ledger.git.log import (
    Enrolment,
    Entered,
    Fact,
    enrolment_tree,
    message,
    subject,
    written,
)
from benchfleet.ledger.git.push_builder import Files
from benchfleet.ledger.git.replay import ACTS
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.sync import Sync
from benchfleet.ledger.table_copy import TABLES, Tables, require_empty

_EVENTS_PER_COMMIT = 1000


def import_tables(
    store: Store, sync: Sync, tables: Tables, files: Files | None, seen: ProgressCallback
) -> None:
    """Push all of it at once, with the results that lie here, then pull it as everybody does.

    Cells have no refs, as after a compaction. Enrolments come before all else that happened, and a
    back-off begins again. Raises GitError, and LedgerError where the ledger is not empty.
    """
    with store.lock:
        sync.pull()
        with store.mirror.reading() as execute:
            require_empty(store.label, *execute("last_numbers").fetchone())
            tips = {ref: tip for ref, (tip, _) in store.mirror.tips(execute).items()}
        cells, events = _read(tables)
        updates = []
        enrolled = [event for event in events if event.kind == "enrolled"]
        if cells and not enrolled:
            enrolled = [Fact(kind="enrolled", fingerprint="", data={}, at=store.wall())]
        if tip := _enrolments(store, cells, enrolled):
            updates.append(RefUpdate(ref=store.refs.enrolled, old="", new=tip))
        updates += _log(store, cells, events, files, tips.get(store.machine, ""), seen)
        if updates and not store.remote.push(
            updates, expected={store.refs.ledger: tips[store.refs.ledger]}
        ):
            raise LedgerError(f"{store.label} is not empty any more: others began to use it")
        sync.pull()


def _read(tables: Tables) -> tuple[list[Entered], list[Fact]]:
    """The cells in their order, and what happened."""
    rows = {
        table: [dict(zip(TABLES[table], row, strict=True)) for row in of] for table, of in tables
    }
    specs = {row["ordinal"]: (row["spec"], row["terms"]) for row in rows["spec"]}
    cells = []
    for row in rows["cell"]:
        spec, terms = specs[row["ordinal"]]
        facts = {name: row[name] for name in ("fingerprint", "id", "path")}
        cells.append(Entered(spec=spec, terms=terms, **facts))
    turns = dict.fromkeys((cell.fingerprint for cell in cells), 0)
    events = [_fact(row, turns) for row in rows["event"]]
    claims = Counter(event.fingerprint for event in events if event.kind == "claimed")
    for row in rows["cell"]:
        if claims[row["fingerprint"]] != row["attempt"]:
            raise LedgerError(
                f"of {counted(row['attempt'], 'attempt')} of {row['path']} the history tells "
                f"{claims[row['fingerprint']]}, so that it cannot happen again; see: "
                f"benchfleet ledger check"
            )
    return cells, events


def _fact(row: dict[str, Any], turns: dict[str, int]) -> Fact:
    fingerprint, kind = row["fingerprint"], row["kind"]
    turn = 0
    if kind in ACTS and fingerprint in turns:
        turn = turns[fingerprint] = turns[fingerprint] + 1
    data = json.loads(row["data"])
    return Fact(kind=kind, fingerprint=fingerprint, data=data, at=row["at"], turn=turn)


def _enrolments(store: Store, cells: Sequence[Entered], facts: Sequence[Fact]) -> str:
    """The last of the commits that record them, of which the first has all cells."""
    tip = ""
    for fact in facts:
        enrolment = Enrolment(fact=fact, cells=() if tip else cells)
        head = f"enroll {len(cells)} cells" if enrolment.cells else "enroll again"
        text = message(head, installation=store.number, facts=written([fact]))
        tree = enrolment_tree(store.objects, enrolment)
        tip = store.commit(tree, (tip,) if tip else (), text)
    return tip


def _log(
    store: Store,
    cells: Sequence[Entered],
    events: Sequence[Fact],
    files: Files | None,
    first: str,
    seen: ProgressCallback,
) -> list[RefUpdate]:
    """What happened to the cells, and the commits that bring their results."""
    by_fingerprint = {cell.fingerprint: cell for cell in cells}
    last = {fact.fingerprint: fact for fact in events if fact.kind == "finished"}
    log, branch = "", first
    tree = store.objects.commit_of(first).tree if first else EMPTY_TREE
    facts = [fact for fact in events if fact.kind != "enrolled"]
    for start in range(0, len(facts), _EVENTS_PER_COMMIT):
        some = facts[start : start + _EVENTS_PER_COMMIT]
        additions: dict[str, tuple[str, bool]] = {}
        finished: list[Fact] = []
        for number, fact in enumerate(some, start):
            seen(number, len(facts))
            if files is None or last.get(fact.fingerprint) is not fact:
                continue
            cell = by_fingerprint[fact.fingerprint]
            outcome = Outcome.from_dict(fact.data["outcome"])
            if outcome.state != "success":
                continue
            if added := files(store.objects, _lease(fact), outcome, cell.path):
                additions |= added
                finished.append(fact)
        if finished:
            tree = store.objects.with_all(tree, additions)
            names = {fact.fingerprint: by_fingerprint[fact.fingerprint].id for fact in finished}
            text = f"{subject(finished, names)}\n"
            branch = store.commit(tree, (branch,) if branch else (), text)
        results = {fact.fingerprint: branch for fact in finished}
        more: dict[str, Any] = {"results": results} if results else {}
        head = f"copy {len(some)} events"
        text = message(head, installation=store.number, facts=written(some), **more)
        log = store.commit(EMPTY_TREE, (log,) if log else (), text)
    seen(len(facts), len(facts))
    updates = [RefUpdate(ref=store.log, old="", new=log)] if log else []
    return [
        *updates,
        *([RefUpdate(ref=store.machine, old=first, new=branch)] if branch != first else []),
    ]


def _lease(fact: Fact) -> Lease:
    facts = fact.data
    return Lease(
        fingerprint=Fingerprint(fact.fingerprint),
        attempt=facts["attempt"],
        token=facts["token"],
        expires_in=0.0,
    )
