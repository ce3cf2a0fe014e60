"""Keeps a ledger in git small: removes the refs of cells that ended, and writes snapshots."""

from __future__ import annotations

from contextlib import suppress

from benchfleet.errors import GitError
from benchfleet.git.objects import EMPTY_TREE
from benchfleet.git.remote import RefUpdate
from benchfleet.ledger.git.log import message
from benchfleet.ledger.git.push_builder import StaleMirror
from benchfleet.ledger.git.snapshot import GROWTH, MIN_EVENTS, write_snapshot
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.sync import Sync

REFS_PER_PUSH = 400
MIN_AGE_S = 86400.0  # far more than a push takes, and than clocks are wrong by
MAX_PUSHES = 5  # pushes that others may be quicker than
MIN_SEEN_S = 3600.0  # by our own clock; more than a push takes


class Compaction:
    """What one process does for the repository."""

    def __init__(self, store: Store, sync: Sync) -> None:
        self._store, self._sync = store, sync
        self._marks: list[tuple[float, int]] = []  # when, by our clock, and the last event then

    def run_if_due(self) -> None:
        """Do what is worth a push; what fails is left to the next time.

        The ref of a cell goes an hour after this process saw the cell end. So no push that began
        before the cell was first claimed is still on its way.
        """
        store, now = self._store, self._store.clock()
        with store.mirror.reading() as execute:
            last: int = execute("last_numbers").fetchone()[1]
            if not self._marks or now - self._marks[-1][0] > MIN_SEEN_S / 4:
                self._marks.append((now, last))
            while len(self._marks) > 1 and now - self._marks[1][0] > MIN_SEEN_S:
                del self._marks[0]
            at, until = self._marks[0]
            seen = until if now - at > MIN_SEEN_S else 0
            old = execute("ended_refs", before=0.0, seen=seen, limit=REFS_PER_PUSH).fetchall()
        with suppress(StaleMirror, GitError):
            if len(old) == REFS_PER_PUSH:
                self._remove_refs(seen, 0.0)
            self._write_snapshot()

    def run(self, older: float = MIN_AGE_S) -> int:
        """Remove the refs of cells that ended so many seconds ago, which the logs have anyway, and
        write a snapshot; how many refs. Raises GitError."""
        removed = refused = 0
        while refused < MAX_PUSHES:  # then the rest is left to the next time
            self._sync.pull()
            try:
                count = self._remove_refs(0, self._store.wall() - older)
            except StaleMirror:
                refused += 1
                continue
            removed += count
            if count < REFS_PER_PUSH:
                break
        with suppress(StaleMirror):  # another writes it
            self._write_snapshot()
        return removed

    def _write_snapshot(self) -> None:
        """Write a snapshot if the history has grown enough. Raises StaleMirror, GitError."""
        store = self._store
        with store.lock:
            with store.mirror.writing() as writer:  # holds off those who write to the mirror
                last: int = writer.execute("last_numbers").fetchone()[1]
                if last < max(MIN_EVENTS, GROWTH * self._sync.snapshot_events):
                    return
                followed = store.refs.logs, store.refs.enrolled
                tips = {
                    ref: tip
                    for ref, (tip, _) in store.mirror.tips(writer.execute).items()
                    if ref.startswith(followed)
                }
                tree = write_snapshot(store.objects, writer.execute, now=store.clock())
            text = message(f"tell {last} events", campaign=store.campaign, tips=tips)
            commit = store.commit(tree, (), text)
            new = RefUpdate(ref=f"{store.refs.snapshots}{last:09}", old="", new=commit)
            older = store.remote.refs(f"{store.refs.snapshots}*")
            removed = [RefUpdate(ref=ref, old=oid, new="") for ref, oid in older.items()]
            if new.ref in older or not store.remote.push([new, *removed]):
                raise StaleMirror
            self._sync.snapshot_events = last

    def _remove_refs(self, seen: int, before: float) -> int:
        """Remove refs of cells that ended by the event `seen` or `before` a time. The ledger's own
        ref moves too: a claim of a cell without a ref names that. Raises StaleMirror, GitError."""
        store = self._store
        with store.lock, store.mirror.writing() as writer:
            execute = writer.execute
            limit = REFS_PER_PUSH
            old = execute("ended_refs", before=before, seen=seen, limit=limit).fetchall()
            if not old:
                return 0
            tip = store.mirror.tips(execute)[store.refs.ledger][0]
            text = message(f"compact {len(old)} claims", campaign=store.campaign)
            commit = store.commit(EMPTY_TREE, (tip,), text)
            updates = [RefUpdate(ref=store.refs.ledger, old=tip, new=commit)]
            for fingerprint, object in old:
                updates.append(
                    RefUpdate(ref=f"{store.refs.claims}{fingerprint}", old=object, new="")
                )
                execute("set_ref_object", fingerprint=fingerprint, object="")
            execute("set_log_tip", ref=store.refs.ledger, tip=commit, moved=store.clock())
            if not store.remote.push(updates):
                raise StaleMirror
            return len(old)
