"""Builds the push of a transaction: commits for the logs, and the refs of the cells it changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.remote import RefUpdate
from benchfleet.ledger.git import log
from benchfleet.ledger.git.log import (
    Changed,
    Enrolment,
    Entered,
    Fact,
    enrolment_tree,
    message,
    payload,
    subject,
    written,
)
from benchfleet.ledger.git.mirror import UNSURE
from benchfleet.ledger.git.mirror_transaction import MirrorTransaction
from benchfleet.ledger.git.replay import ACTS, claim_state, ids_of
from benchfleet.ledger.git.store import Store

MAX_COMMITS_SEARCHED = 200  # commits of our log in which results are searched


class Files(Protocol):
    """Writes the files of a finished attempt; returns its objects by their path in the repository,
    True for a folder, and nothing if it has none. The files of a published attempt lie at its
    `path`."""

    def __call__(
        self, objects: Objects, lease: Lease, outcome: Outcome, path: str = ""
    ) -> Mapping[str, tuple[str, bool]]: ...


class StaleMirror(Exception):
    """The remote has something that was not pulled yet."""


@dataclass
class Push:
    """The refs that a transaction moves, all or none."""

    updates: list[RefUpdate] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)  # refs that must be as they were pulled
    commit: str = ""  # the last one, which shows whether the push reached the remote


def build_push(store: Store, transaction: MirrorTransaction, files: Files | None) -> Push:
    """Write the commits, and enter the push in the mirror as if it had gone through.

    Raises StaleMirror if the remote would refuse it.
    """
    return _Builder(store, transaction, files).build()


class _Builder:
    def __init__(self, store: Store, transaction: MirrorTransaction, files: Files | None) -> None:
        self._store, self._transaction, self._files = store, transaction, files
        self._execute = transaction.execute
        self._tips = store.mirror.tips(self._execute)
        self._push = Push()

    def build(self) -> Push:
        rows = self._execute("events_after", seq=self._transaction.events_before).fetchall()
        for _, at, kind, _, data in rows:
            if kind == "enrolled":
                self._add_enrolment(Fact(kind=kind, fingerprint="", data=json.loads(data), at=at))
        self._add_facts([row for row in rows if row[2] != "enrolled"])
        if self._transaction.renewed:
            self._add_heartbeat()
        now = self._store.clock()
        for update in self._push.updates:
            if not update.ref.startswith(self._store.refs.claims):
                self._execute("set_log_tip", ref=update.ref, tip=update.new, moved=now)
        return self._push

    def _tip(self, ref: str) -> str:
        return self._tips.get(ref, ("", 0.0))[0]

    def _move(self, ref: str, commit: str) -> None:
        self._push.updates.append(RefUpdate(ref=ref, old=self._tip(ref), new=commit))

    def _commit_on(self, ref: str, tree: str, text: str) -> str:
        """A commit that follows the last one of a ref, which the push moves to it."""
        tip = self._tip(ref)
        self._push.commit = self._store.commit(tree, (tip,) if tip else (), text)
        self._move(ref, self._push.commit)
        return self._push.commit

    def _hold_ledger(self) -> None:
        """Refuse the push if refs of cells were removed meanwhile: that moves the ledger's ref. A
        cell without a ref may have had one, and ended."""
        ref = self._store.refs.ledger
        self._push.expected = {ref: self._tip(ref)}

    def _add_enrolment(self, fact: Fact) -> None:
        cells_before = self._transaction.cells_before
        cells = [
            Entered(fingerprint=fingerprint, id=id, path=path, spec=spec, terms=terms)
            for fingerprint, id, path, spec, terms in self._execute(
                "cells_after", ordinal=cells_before
            )
        ]
        changed = [
            Changed(
                fingerprint=self._execute("cell_at", ordinal=ordinal).fetchone()[0], terms=terms
            )
            for ordinal, terms in self._transaction.new_terms.items()
            if ordinal <= cells_before
        ]
        head = f"enroll {len(cells)} cells" if cells else f"change {len(changed)} cells"
        text = message(head, installation=self._store.number, facts=written([fact]))
        enrolment = Enrolment(fact=fact, cells=cells, changed=changed)
        tree = enrolment_tree(self._store.objects, enrolment)
        self._commit_on(self._store.refs.enrolled, tree, text)

    def _add_facts(self, rows: Sequence[Any]) -> None:
        turns: dict[str, int] = {}
        objects: dict[str, str] = {}  # what the refs of the cells point to
        facts = []
        for seq, at, kind, fingerprint, data in rows:
            turn = 0
            acts = kind in ACTS and seq not in self._transaction.without_effect
            if acts or seq in self._transaction.ordered:
                if fingerprint not in turns:
                    turns[fingerprint], objects[fingerprint] = self._standing(fingerprint)
                turn = turns[fingerprint] = turns[fingerprint] + 1
            facts.append(
                Fact(kind=kind, fingerprint=fingerprint, data=json.loads(data), at=at, turn=turn)
            )
        if not facts:
            return
        store, ids = self._store, ids_of(self._execute, facts)
        more = self._add_results(ids) if self._files else {}
        text = message(subject(facts, ids), installation=store.number, facts=written(facts), **more)
        commit = self._commit_on(store.log, EMPTY_TREE, text)
        for fingerprint, turn in turns.items():
            old = objects[fingerprint]
            ref = f"{store.refs.claims}{fingerprint}"
            self._push.updates.append(RefUpdate(ref=ref, old=old, new=commit))
            self._execute(
                "set_claim_ref", fingerprint=fingerprint, turn=turn, base=commit, object=commit
            )
            if not old:
                self._hold_ledger()

    def _standing(self, fingerprint: str) -> tuple[int, str]:
        turn, _, object = claim_state(self._execute, fingerprint)
        if object == UNSURE:
            raise StaleMirror
        return turn, object

    def _add_results(self, ids: dict[str, str]) -> dict[str, Any]:
        """The commit with the files of all that is being finished, by cell."""
        store, first = self._store, self._tip(self._store.machine)
        tip = self._results_in_log() or first  # where the branch lacks them, it gets them now
        tree = store.objects.commit_of(tip).tree if tip else EMPTY_TREE
        additions: dict[str, tuple[str, bool]] = {}
        facts = []
        for lease, outcome in self._transaction.finished:
            if self._files and (added := self._files(store.objects, lease, outcome)):
                additions |= added
                fact = Fact(kind="finished", fingerprint=lease.fingerprint, data={}, at=0.0)
                facts.append(fact)
        if facts:
            tree = store.objects.with_all(tree, additions)
            tip = store.commit(tree, (tip,) if tip else (), f"{subject(facts, ids)}\n")
        if tip == first:
            return {}
        self._move(store.machine, tip)
        return {"results": {fact.fingerprint: tip for fact in facts}}

    def _results_in_log(self) -> str:
        """The last commit of results that our log names, if it is here; "" otherwise. The branch
        lacks it if the remote went away while it changed refs."""
        objects = self._store.objects
        for commit in objects.back(self._tip(self._store.log), MAX_COMMITS_SEARCHED):
            if commits := set(payload(commit).get("results", {}).values()):
                if not all(objects.has(oid) for oid in commits):
                    return ""  # of a mirror that was read again from the remote
                before = {one for oid in commits for one in objects.commit_of(oid).parents}
                return str((commits - before).pop())
        return ""

    def _add_heartbeat(self) -> None:
        """One new object that the refs of all renewed cells point to, unless the same transaction
        did something else to them."""
        store = self._store
        moved = {update.ref for update in self._push.updates}
        bases, updates = {}, []
        for fingerprint in self._transaction.renewed:
            ref = f"{store.refs.claims}{fingerprint}"
            if ref in moved:
                continue
            _, base, object = claim_state(self._execute, fingerprint)
            if object == UNSURE:
                raise StaleMirror
            if not object:  # a remote that went away while it changed refs has not made it
                self._hold_ledger()
            bases[fingerprint] = base
            updates.append(RefUpdate(ref=ref, old=object, new=""))
        beat = {"benchfleet": 1, "beat": os.urandom(8).hex(), "by": store.number, "holds": bases}
        beat |= log.lease_data(store.lease)
        now = store.wall()
        reports = [
            [one.runner, (replace(one, clock=now) if one.clock else one).to_json()]
            for one in self._transaction.reported
        ]
        beat |= {"at": now, "progress": reports} if reports else {}
        blob = store.objects.blob(json.dumps(beat).encode())
        for fingerprint in bases:
            self._execute("set_ref_object", fingerprint=fingerprint, object=blob)
        self._push.updates += [replace(update, new=blob) for update in updates]
