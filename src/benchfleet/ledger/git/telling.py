"""What of a change goes to the remote: facts for the logs, and who may still change a cell."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.remote import Swap
from benchfleet.ledger.git.log import (
    Changed,
    Enrolment,
    Entered,
    Fact,
    enrolment_tree,
    message,
    subject,
    written,
)
from benchfleet.ledger.git.looking import Tips
from benchfleet.ledger.git.mirror import UNSURE, Change
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.taking import ACTS, ids_of, standing
from benchfleet.ledger.statements import Do


class Files(Protocol):
    """The tree with the files of a finished attempt added; None where there are none. Those of one
    that was published lie at its `path`."""

    def __call__(
        self, objects: Objects, tree: str, lease: Lease, outcome: Outcome, id: str, path: str = ""
    ) -> str | None: ...


class Behind(Exception):
    """Something happened at the remote that was not taken in yet."""


@dataclass
class Told:
    """What is pushed for a change."""

    swaps: list[Swap] = field(default_factory=list)
    holding: dict[str, str] = field(default_factory=dict)  # refs that must be as they were seen
    commit: str = ""  # the last one, by which it can be seen whether it went through


def tell(store: Store, change: Change, files: Files | None) -> Told:
    """Write down what a change did, and enter it in the mirror as if it had gone through.

    Raises Behind where that cannot go well.
    """
    do, now = change.do, store.clock()
    tips = store.mirror.tips(do)
    told = Told()
    events = do("events_after", seq=change.events).fetchall()
    for _, *event in events:
        if event[1] == "enrolled":
            _tell_enrolment(store, change, event, tips, told)
    _tell_facts(store, change, events, tips, told, files)
    if change.renewed:
        _tell_beat(store, change, told)
    for swap in told.swaps:
        if not swap.ref.startswith(store.refs.claims):
            do("moved", ref=swap.ref, tip=swap.new, moved=now)
    return told


def _tell_facts(
    store: Store,
    change: Change,
    events: Sequence[Any],
    tips: Tips,
    told: Told,
    files: Files | None,
) -> None:
    do = change.do
    turns: dict[str, int] = {}
    claims: dict[str, str] = {}
    facts = []
    for seq, at, kind, fingerprint, data in events:
        if kind == "enrolled":
            continue
        turn = 0
        if kind in ACTS and seq not in change.idle:
            if fingerprint not in turns:
                turns[fingerprint], _, claims[fingerprint] = standing(do, fingerprint)
                if claims[fingerprint] == UNSURE:
                    raise Behind
            turn = turns[fingerprint] = turns[fingerprint] + 1
        facts.append(
            Fact(kind=kind, fingerprint=fingerprint, data=json.loads(data), at=at, turn=turn)
        )
    if not facts:
        return
    ids = ids_of(do, facts)
    more = _tell_results(store, change, ids, tips, told, files) if files else {}
    tip = tips.get(store.log, ("", 0.0))[0]
    text = message(subject(facts, ids), installation=store.number, facts=written(facts), **more)
    told.commit = commit = store.commit(EMPTY_TREE, (tip,) if tip else (), text)
    told.swaps.append(Swap(ref=store.log, old=tip, new=commit))
    for fingerprint, turn in turns.items():
        old = claims[fingerprint]
        told.swaps.append(Swap(ref=f"{store.refs.claims}{fingerprint}", old=old, new=commit))
        do("stand", fingerprint=fingerprint, turn=turn, base=commit, object=commit)
        if not old:
            # It may have had a ref, and ended, before all that was compacted away.
            told.holding = _ledger(store, do)


def _ledger(store: Store, do: Do) -> dict[str, str]:
    """The ledger's own ref, which moves where refs of cells are removed."""
    return {store.refs.ledger: store.mirror.tips(do)[store.refs.ledger][0]}


def _tell_results(
    store: Store,
    change: Change,
    ids: dict[str, str],
    tips: Tips,
    told: Told,
    files: Files,
) -> dict[str, Any]:
    """The commits that bring the files of what is being finished, one for each cell."""
    do = change.do
    tip = first = tips.get(store.machine, ("", 0.0))[0]
    if last := store.last_results(do):
        tip = last  # where the branch lacks it, it gets it now
    tree = store.objects.commit_of(tip).tree if tip else EMPTY_TREE
    results = {}
    for lease, outcome in change.finished:
        with_files = files(store.objects, tree, lease, outcome, ids.get(lease.fingerprint, ""))
        if with_files is not None:
            tree = with_files
            fact = Fact(kind="finished", fingerprint=lease.fingerprint, data={}, at=0.0)
            text = f"{subject([fact], ids)}\n"
            tip = store.commit(tree, (tip,) if tip else (), text)
            results[lease.fingerprint] = tip
    if tip == first:
        return {}
    told.swaps.append(Swap(ref=store.machine, old=first, new=tip))
    return {"results": results}


def _tell_enrolment(store: Store, change: Change, event: Any, tips: Tips, told: Told) -> None:
    do, (at, kind, _, data) = change.do, event
    cells = [
        Entered(fingerprint=fingerprint, id=id, path=path, spec=spec, terms=terms)
        for fingerprint, id, path, spec, terms in do("cells_after", ordinal=change.enrolled)
    ]
    changed = []
    for ordinal, terms in dict(change.changed).items():
        if ordinal <= change.enrolled:
            (fingerprint,) = do("cell_at", ordinal=ordinal).fetchone()
            changed.append(Changed(fingerprint=fingerprint, terms=terms))
    fact = Fact(kind=kind, fingerprint="", data=json.loads(data), at=at)
    enrolment = Enrolment(fact=fact, cells=cells, changed=changed)
    head = f"enroll {len(cells)} cells" if cells else f"change {len(changed)} cells"
    text = message(head, installation=store.number, facts=written([fact]))
    tip = tips.get(store.refs.enrolled, ("", 0.0))[0]
    tree = enrolment_tree(store.objects, enrolment)
    told.commit = store.commit(tree, (tip,) if tip else (), text)
    told.swaps.append(Swap(ref=store.refs.enrolled, old=tip, new=told.commit))


def _tell_beat(store: Store, change: Change, told: Told) -> None:
    """A heartbeat: one new object that every renewed claim points to, unless something else
    happened to it in the same change."""
    moved = {swap.ref for swap in told.swaps}
    held, swaps = {}, []
    for fingerprint in change.renewed:
        ref = f"{store.refs.claims}{fingerprint}"
        if ref in moved:
            continue
        _, base, object = standing(change.do, fingerprint)
        if object == UNSURE:
            raise Behind
        if not object:  # a remote that went away while it changed refs has not made it
            told.holding = _ledger(store, change.do)
        held[fingerprint] = base
        swaps.append(Swap(ref=ref, old=object, new=""))
    beat = {"benchfleet": 1, "beat": os.urandom(8).hex(), "by": store.number, "holds": held}
    blob = store.objects.blob(json.dumps(beat).encode())
    for fingerprint in held:
        change.do("point", fingerprint=fingerprint, object=blob)
    told.swaps += [replace(swap, new=blob) for swap in swaps]
