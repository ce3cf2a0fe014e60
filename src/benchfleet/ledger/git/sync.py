"""Pulls what others did to a ledger in git into the mirror, each commit once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from benchfleet.domain.worker_progress import MAX_PROGRESS_BYTES
from benchfleet.errors import (
    GitError,
    LedgerAbsent,
    LedgerDamaged,
    LedgerError,
    LedgerUnreachable,
    PushRejected,
)
from benchfleet.git.objects import EMPTY_TREE, Commit, write_pin
from benchfleet.git.process import is_interrupted
from benchfleet.git.remote import RefUpdate
from benchfleet.ledger.git.address import ref_part
from benchfleet.ledger.git.log import enrolment_of, facts_of, lease_seconds, message, payload
from benchfleet.ledger.git.mirror import UNSURE, Writer
from benchfleet.ledger.git.partial_push import Mismatches, complete_claims, complete_results
from benchfleet.ledger.git.replay import add_enrolment, apply, can_apply, claim_state
from benchfleet.ledger.git.snapshot import newest_snapshot, read_snapshot, tips_of
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.named_queries import Execute

MAX_COMMITS_SEARCHED = 200  # commits of a log in which one is searched
_CREATE_PAUSE_S = 1.0  # between two pushes that create the ledger
_CREATE_TIMEOUT_S = 15.0  # for a remote that rejects the first push; nothing would be lost
Tips = Mapping[str, tuple[str, float]]  # by ref, its commit and when that was first seen


class Sync:
    """The pulls of one process. Refs of cells are compared with the logs on the way."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The last pull, by time.monotonic and by the store's clock.
        self.pulled_at = self._compared_at = -float("inf")
        self.active = 1  # installations that pushed within a lease, ours too
        self.snapshot_events = 0  # how many the newest snapshot has
        self._mismatches = Mismatches()

    def open(self, create: bool, timeout: float = 0.0) -> None:
        """Pull for the first time; with `create`, begin a ledger where there is none. Raises
        GitError, LedgerAbsent."""
        store = self._store
        with store.lock:
            refs = self._remote_refs()
            if store.refs.ledger not in refs and not self._tips():
                if not create:
                    raise LedgerAbsent(
                        f"{store.label} has no ledger of campaign {store.campaign!r}"
                    )
                self._create(timeout)
                refs = self._remote_refs()
            self._take_in(refs)

    def _create(self, timeout: float) -> None:
        """Create the ledger, unless another installation does. Raises GitError; PushRejected after
        `timeout` seconds, or soon, since a person waits for the reason."""
        store, until = self._store, time.monotonic() + min(timeout, _CREATE_TIMEOUT_S)
        text = message(f"begin the ledger of {store.campaign}", campaign=store.campaign)
        commit = store.commit(EMPTY_TREE, (), text)
        while True:
            try:
                store.remote.push([RefUpdate(ref=store.refs.ledger, old="", new=commit)])
                return
            except PushRejected:
                if is_interrupted() or time.monotonic() + _CREATE_PAUSE_S > until:
                    raise
            store.closing.wait(_CREATE_PAUSE_S)

    def pull(self) -> None:
        """Bring the mirror up to date. Raises GitError."""
        with self._store.lock:
            self._take_in(self._remote_refs())

    def has_pushed(self, commit: str) -> bool:
        """Whether the remote has a commit of ours, as of the last pull."""
        tips = self._tips()
        ours = (tips.get(ref, ("", 0.0))[0] for ref in (self._store.log, self._store.refs.enrolled))
        return any(
            one.oid == commit
            for oid in ours
            for one in self._store.objects.back(oid, MAX_COMMITS_SEARCHED)
        )

    def complete_results(self) -> None:
        """Complete the results branches that a remote changed only in part. Raises GitError."""
        store = self._store
        with store.lock:
            logs = [
                tip for ref, (tip, _) in self._tips().items() if ref.startswith(store.refs.logs)
            ]
            complete_results(store.remote, store.objects, logs)

    # Pulling

    def _remote_refs(self) -> dict[str, str]:
        return self._store.remote.refs(f"{self._store.refs.root}/*", self._store.machine)

    def _tips(self) -> Tips:
        with self._store.mirror.reading() as execute:
            return self._store.mirror.tips(execute)

    def _take_in(self, refs: Mapping[str, str]) -> None:
        store, now, began = self._store, self._store.clock(), time.monotonic()
        self.snapshot_events, snapshot = newest_snapshot(store.refs, refs)
        tips = self._tips()
        self._refuse_losses(tips, refs)
        if (new_here := not tips) and snapshot:
            self._begin_with(snapshot, refs)
            tips = self._tips()
        apart = store.refs.claims, store.refs.snapshots
        moved = {
            ref: oid
            for ref, oid in refs.items()
            if not ref.startswith(apart) and tips.get(ref, ("",))[0] != oid
        }
        claims = {
            ref.removeprefix(store.refs.claims): oid
            for ref, oid in refs.items()
            if ref.startswith(store.refs.claims)
        }
        self._fetch(moved, claims, tips)
        with store.mirror.writing() as writer:
            if store.machine in tips and store.machine not in refs:  # somebody removed the branch
                writer.execute("set_log_tip", ref=store.machine, tip="", moved=now)
            for ref, oid in moved.items():
                self._follow(writer, ref, tips.get(ref, ("",))[0], oid, now)
            self._follow_logs(writer.execute, tips, moved, now)
            mismatched = self._compare_claims(writer.execute, claims, now)
        self._compared_at = now
        for ref, oid in moved.items():
            write_pin(store.git, ref_part(ref), oid)
        if lasting := self._mismatches.lasting(mismatched, now):
            self._complete_claims(lasting)
        self.pulled_at = began
        recent = {ref for ref, (_, at) in tips.items() if now - at < store.lease}
        recent |= set() if new_here else set(moved)
        self.active = len({store.log} | {r for r in recent if r.startswith(store.refs.logs)})

    def _refuse_losses(self, tips: Tips, refs: Mapping[str, str]) -> None:
        store = self._store
        needed = store.refs.ledger, *(r for r in (store.refs.enrolled, store.log) if r in tips)
        for ref in needed:
            if ref not in refs:
                what = f"{ref} of " if ref != store.refs.ledger else ""
                raise LedgerUnreachable(
                    f"{store.label} has lost {what}the ledger of {store.campaign!r}, which was "
                    f"there; check that it is the same repository (if the ledger is lost, "
                    f"remove {store.folder}, and `benchfleet ledger rebuild` creates a new one "
                    "from the results)"
                )

    def _begin_with(self, snapshot: str, refs: Mapping[str, str]) -> None:
        """Read a snapshot instead of the whole history; if that fails, the history is read."""
        store = self._store
        enrolled = store.refs.enrolled
        with suppress(GitError, LedgerDamaged):
            store.remote.fetch([snapshot], depth=1)
            store.remote.fetch([refs.get(enrolled, "")])
            tips = tips_of(store.objects.commit_of(snapshot))
            with store.mirror.writing() as writer:
                for commit in store.objects.since(tips.get(enrolled, ""), ""):
                    add_enrolment(writer, enrolment_of(store.objects, commit), event=False)
                now = store.clock()
                read_snapshot(store.objects, writer, snapshot, now=now, lease=store.lease)
                for ref, tip in tips.items():
                    writer.execute("set_log_tip", ref=ref, tip=tip, moved=now - store.lease)

    def _fetch(self, moved: Mapping[str, str], claims: Mapping[str, str], tips: Tips) -> None:
        """Fetch what these refs lead to, from where they were followed to."""
        store = self._store
        with store.mirror.reading() as execute:
            before = store.mirror.claims(execute)
        known_tips = {
            ref: tips[ref][0] for ref in moved if ref in tips and ref != store.refs.ledger
        }
        if store.log in tips:
            known_tips[store.log] = tips[store.log][0]
        missing = {ref: oid for ref, oid in known_tips.items() if not store.objects.has(oid)}
        if missing:
            with suppress(GitError):  # an old server gives no commits but the last; then all come
                depth = MAX_COMMITS_SEARCHED if store.log in missing else 1
                store.remote.fetch(missing.values(), depth=depth)
                for ref, oid in missing.items():
                    write_pin(store.git, ref_part(ref), oid)
        alone = {store.refs.ledger, store.machine}  # of which the last commit is enough
        if store.refs.ledger in moved:
            store.remote.fetch([moved[store.refs.ledger]], depth=1)
        new = [oid for name, oid in claims.items() if oid not in before.get(name, ())]
        store.remote.fetch([*(oid for ref, oid in moved.items() if ref not in alone), *new])
        machine = moved.get(store.machine) or tips.get(store.machine, ("",))[0]
        if machine and not store.objects.has(machine):
            store.remote.fetch([machine], depth=1, without_files=True)

    def _follow(self, writer: Writer, ref: str, known_tips: str, oid: str, now: float) -> None:
        """Apply what the ledger's own refs say: what it is, and its enrolments."""
        store = self._store
        if ref == store.refs.ledger:
            if payload(store.objects.commit_of(oid)).get("campaign") != store.campaign:
                raise LedgerError(f"{store.label}: {ref} is the ledger of another campaign")
        elif ref == store.refs.enrolled:
            for commit in self._since(oid, known_tips):
                add_enrolment(writer, enrolment_of(store.objects, commit))
        elif ref != store.machine:
            return
        writer.execute("set_log_tip", ref=ref, tip=oid, moved=now)

    def _follow_logs(
        self, execute: Execute, tips: Tips, moved: Mapping[str, str], now: float
    ) -> None:
        """Apply the new facts of the logs, those of each cell in their order. What follows a fact
        that was not seen yet waits for the next pull."""
        store = self._store
        waiting = {
            ref: [(one.oid, facts_of(one)) for one in self._since(oid, tips.get(ref, ("",))[0])]
            for ref, oid in moved.items()
            if ref.startswith(store.refs.logs)
        }
        done = dict.fromkeys(waiting, 0)
        while True:
            heads = sorted(
                (commits[done[ref]][1][0].at, ref)
                for ref, commits in waiting.items()
                if done[ref] < len(commits)
            )
            for _, ref in heads:
                oid, facts = waiting[ref][done[ref]]
                if can_apply(execute, facts):
                    apply(execute, facts, oid, now=now, lease=store.lease)
                    done[ref] += 1
                    break
            else:
                break
        for ref, number in done.items():
            if number:
                execute("set_log_tip", ref=ref, tip=waiting[ref][number - 1][0], moved=now)

    def _since(self, oid: str, known_tips: str) -> list[Commit]:
        try:
            return self._store.objects.since(oid, known_tips)
        except GitError as error:
            raise LedgerDamaged(
                f"{self._store.label}: {error}; a ledger's refs are never to be rewritten"
            ) from error

    def _compare_claims(
        self, execute: Execute, claims: Mapping[str, str], now: float
    ) -> dict[str, str]:
        """Enter where the refs of cells point: to the last commit about the cell, or to a heartbeat
        after it. Those that point elsewhere are returned."""
        mismatched: dict[str, str] = {}
        beats: dict[str, Mapping[str, Any]] = {}
        before = self._store.mirror.claims(execute)
        for fingerprint, oid in claims.items():
            turn, base, object = before.get(fingerprint) or claim_state(execute, fingerprint)
            if oid == object:
                continue
            if oid != base:
                if oid not in beats:
                    kind, content = self._store.objects.read(oid)
                    beats[oid] = json.loads(content) if kind == "blob" else {"holds": {}}
                    self._take_progress(execute, beats[oid], now)
                if not base or beats[oid]["holds"].get(fingerprint) != base:
                    mismatched[fingerprint], oid = oid, UNSURE
                else:
                    seconds = lease_seconds(beats[oid], self._store.lease)
                    execute("extend", fingerprint=fingerprint, expires=now + seconds)
            execute("set_claim_ref", fingerprint=fingerprint, turn=turn, base=base, object=oid)
        for fingerprint in before:
            if fingerprint not in claims:  # removed by a compaction
                execute("set_ref_object", fingerprint=fingerprint, object="")
        return mismatched

    def _take_progress(self, execute: Execute, beat: Mapping[str, Any], now: float) -> None:
        """Enter what runners reported with a heartbeat, which the pull before did not find."""
        with suppress(LookupError, TypeError, ValueError):  # another wrote it
            age = max(0.0, self._store.wall() - float(beat["at"]))
            at = max(now - age, self._compared_at)
            for runner, text in beat["progress"]:
                if len(text) <= MAX_PROGRESS_BYTES:
                    execute("report_progress", runner=str(runner), at=at, data=str(text))

    def _complete_claims(self, mismatched: Mapping[str, str]) -> None:
        store = self._store
        with store.mirror.reading() as execute:
            known_tips = {
                name: (oid, *claim_state(execute, name)[:2]) for name, oid in mismatched.items()
            }
            tips = store.mirror.tips(execute)
        logs = {ref: tip for ref, (tip, _) in tips.items() if ref.startswith(store.refs.logs)}
        complete_claims(store.remote, store.objects, store.refs, known_tips, logs)
