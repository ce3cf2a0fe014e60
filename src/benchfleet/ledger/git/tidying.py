"""Keeping a ledger in git small: refs of cells that ended long ago go, and a state is written that
spares newcomers the history."""

from __future__ import annotations

from benchfleet.errors import GitError
from benchfleet.git.objects import EMPTY_TREE
from benchfleet.git.remote import Swap
from benchfleet.ledger.git.log import message
from benchfleet.ledger.git.mirror import Change
from benchfleet.ledger.git.state import GROWN, LEAST, write_state
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.telling import Behind
from benchfleet.ledger.statements import Do

TOGETHER = 400  # refs in one push
OLD = 86400.0  # seconds; far more than a push takes, and than clocks are wrong by
_TRIES = 5  # pushes that others may be quicker than
_SEEN = 3600.0  # seconds by our own clock; more than a push takes


class Tidying:
    """What one process removes and writes down of a ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marks: list[tuple[float, int]] = []  # when, by our clock, and the last event then

    def now_and_then(self) -> None:
        """Do what is due, where it is worth a push; what goes wrong is left to the next time.

        Of cells that ended the refs go an hour after that was seen here. So no push that began
        before its cell was claimed first is still on its way.
        """
        store, now = self._store, self._store.clock()
        with store.mirror.reading() as do:
            last: int = do("how_much").fetchone()[1]
            if not self._marks or now - self._marks[-1][0] > _SEEN / 4:
                self._marks.append((now, last))
            while len(self._marks) > 1 and now - self._marks[1][0] > _SEEN:
                del self._marks[0]
            at, until = self._marks[0]
            seen = until if now - at > _SEEN else 0
            old = do("ended_long_ago", before=0.0, seen=seen, limit=TOGETHER).fetchall()
        try:
            if len(old) == TOGETHER:
                self._compacted(seen)
            self.told(last)
        except (Behind, GitError):
            store.ending.wait(0.0)  # another was quicker, or the remote is away

    def compact(self, older: float = OLD) -> int:
        """Remove the refs of cells that ended so many seconds ago, which the logs tell of anyway;
        how many. Whoever does not know of it is refused, since the ledger's own ref moves on."""
        removed = refused = 0
        while True:
            self._store.look()
            try:
                found = self._compacted(0, self._store.wall() - older)
            except Behind:
                if (refused := refused + 1) < _TRIES:
                    continue
                return removed  # the rest is left to the next time
            removed += found
            if found < TOGETHER:
                return removed

    def told(self, last: int) -> bool:
        """Write the state down where it has grown; whether it was. Raises Behind."""
        store = self._store
        if last < max(LEAST, GROWN * store.told_in_state):
            return False
        with store.turn:
            with store.mirror.writing() as change:
                do = change.do
                tips = store.mirror.tips(do)
                known = {ref: tip for ref, (tip, _) in tips.items() if _told_of(store, ref)}
                tree = write_state(store.objects, do, now=store.clock())
                last = change.events
            text = message(f"tell {last} events", campaign=store.campaign, tips=known)
            commit = store.commit(tree, (), text)
            swaps = [Swap(ref=f"{store.refs.states}{last:09}", old="", new=commit)]
            older = store.remote.refs(f"{store.refs.states}*")
            swaps += [Swap(ref=ref, old=oid, new="") for ref, oid in older.items()]
            if swaps[0].ref in older or not store.remote.push(swaps):
                raise Behind
            store.told_in_state = last
        return True

    def _compacted(self, seen: int, before: float = 0.0) -> int:
        with self._store.turn, self._store.mirror.writing() as change:
            return _removed(self._store, change, seen, before)


def _told_of(store: Store, ref: str) -> bool:
    return ref.startswith((store.refs.logs, store.refs.enrolled))


def _removed(store: Store, change: Change, seen: int, before: float) -> int:
    do: Do = change.do
    old = do("ended_long_ago", before=before, seen=seen, limit=TOGETHER).fetchall()
    if not old:
        return 0
    tip = store.mirror.tips(do)[store.refs.ledger][0]
    text = message(f"compact {len(old)} claims", campaign=store.campaign)
    commit = store.commit(EMPTY_TREE, (tip,), text)
    swaps = [Swap(ref=f"{store.refs.claims}{name}", old=object, new="") for name, object in old]
    if not store.remote.push([Swap(ref=store.refs.ledger, old=tip, new=commit), *swaps]):
        raise Behind
    do("moved", ref=store.refs.ledger, tip=commit, moved=store.clock())
    for name, _ in old:
        do("point", fingerprint=name, object="")
    return len(old)
