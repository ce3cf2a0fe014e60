"""A git ledger on a server that others use too: what is to be told waits, and goes together.

A hosted repository is to be pushed to about six times a minute, by all who use it. So each
installation lets ten seconds pass between two pushes for every installation that is at work, and
what comes meanwhile shares the next one: cells are claimed ahead, one for each that runs; finishes
and renewals wait for the push that tells them, and events and releases do not. A finish returns
when the remote has it, as everywhere: nothing is published on the mere hope of it.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchfleet.domain.attempt import CellRecord, Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.seen import Seen, unseen
from benchfleet.domain.state import State
from benchfleet.errors import ClaimLost
from benchfleet.ledger.copying import Row, TableLedger, Tables
from benchfleet.ledger.git.ahead import Ahead
from benchfleet.ledger.git.ledger import LEASE, GitLedger
from benchfleet.ledger.git.taking import ACTS

PUSHES = 6  # a minute, of all installations together
_SPACE = 60.0 / PUSHES  # seconds between two pushes of one that is alone
_GATHER = 2.0  # seconds in which what ends together comes together
_STEP = 0.5  # seconds between two looks at whether it is time
Verb = Callable[[], Any]


@dataclass(eq=False)
class _Wish:
    """A verb that waits for the next push."""

    verb: Verb
    answer: Any = None
    told: threading.Event = field(default_factory=threading.Event)


class HostedLedger(TableLedger):
    """Another ledger in git, told of several things at once, by a thread of its own."""

    multi_host = True
    hosted = True
    usual_lease = LEASE
    carries_results = True

    def __init__(
        self,
        inside: GitLedger,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        threads: bool = True,
    ) -> None:
        self.inside = inside
        self._clock, self._random = clock, chance or random.Random()  # noqa: S311
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: list[_Wish] = []
        self._ahead = Ahead()
        self._renewing: tuple[Lease, ...] | None = None  # what the next push renews
        self._lost: set[tuple[str, int]] = set()  # fingerprints and tokens, not told yet
        self._since: float | None = None  # when the first thing that waits came
        self._next = clock() + self._random.uniform(0.0, 3 * _SPACE)
        self._ending = threading.Event()
        self._teller: threading.Thread | None = None

    # The pace

    def step(self) -> bool:
        """Tell what waits, where it is time; whether something was told. Raises nothing: each who
        waits hears what came of it."""
        now = self._clock()
        with self._lock:
            idle = not self._waiting and not self._ahead.lacks
            soon = self._since is None or now < max(self._next, self._since + _GATHER)
        if idle or soon:
            return False
        try:
            at_work, lately = self.inside.moved(60.0)
        except Exception:  # noqa: BLE001 - the push tells what is wrong
            at_work, lately = 1, 0
        if lately >= PUSHES:
            self._next = now + self._random.uniform(0.5, 3.0) * _SPACE
            return False
        self._next = now + _SPACE * max(1, at_work)
        self._tell()
        return True

    def _tell(self) -> None:
        with self._lock:
            wishes, self._waiting = self._waiting, []
            wanted, self._since = self._ahead.wanted(), None
        claiming = [_Wish(partial(self.inside.claimed, *one)) for one in wanted]
        together = [*wishes, *claiming]
        try:
            answers = self.inside.shared([wish.verb for wish in together])
        except Exception as error:  # noqa: BLE001 - each who waits must hear of it
            answers = [error] * len(together)
        for wish, answer in zip(together, answers, strict=True):
            wish.answer = answer
        with self._lock:
            for wish in claiming:
                if not isinstance(wish.answer, BaseException):
                    self._ahead.put(wish.answer)
        for wish in wishes:
            wish.told.set()

    def _wish(self, verb: Verb) -> _Wish:
        wish = _Wish(verb)
        with self._lock:
            self._waiting.append(wish)
            self._came()
        return wish

    def _came(self) -> None:
        if self._since is None:
            self._since = self._clock()
        if self._teller is None and self._threads and not self._ending.is_set():
            self._teller = threading.Thread(target=self._keep_telling, name="teller", daemon=True)
            self._teller.start()

    def _keep_telling(self) -> None:
        while not self._ending.wait(_STEP):
            self.step()

    def _answered(self, wish: _Wish) -> Any:
        wish.told.wait()
        if isinstance(wish.answer, BaseException):
            raise wish.answer
        return wish.answer

    # The verbs

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        """What was claimed ahead; where that is not enough, the next push claims more."""
        with self._lock:
            taken = self._ahead.take(runner, candidates, limit)
            if self._ahead.lacks:
                self._came()
        return taken

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        with self.inside.kept(lease, outcome):
            self._answered(self.finishing(lease, outcome))

    def finish_all(self, ended: Sequence[tuple[Lease, Outcome]]) -> Sequence[ClaimLost | None]:
        """All of them in the next push."""
        refused: list[ClaimLost | None] = []
        with contextlib.ExitStack() as outbox:
            for lease, outcome in ended:
                outbox.enter_context(self.inside.kept(lease, outcome))
            for wish in [self.finishing(*one) for one in ended]:
                try:
                    self._answered(wish)
                    refused.append(None)
                except ClaimLost as error:
                    refused.append(error)
        return refused

    def finishing(self, lease: Lease, outcome: Outcome) -> _Wish:
        """`finish`, of which the answer comes later."""
        with self._lock:
            self._ahead.ended([lease])
        return self._wish(lambda: self.inside.finished(lease, outcome))

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """All but those that the last push lost; the next one tells of these."""
        with self._lock:
            lost, self._lost = self._lost, set()
            renewing, self._renewing = self._renewing, tuple(leases)
        if renewing is None:
            self._wish(self._renew)
        return [lease for lease in leases if (lease.fingerprint, lease.token) not in lost]

    def _renew(self) -> None:
        with self._lock:
            leases, ahead = self._renewing or (), self._ahead.leases()
        held = self.inside.renewed([*leases, *ahead])
        good = {(lease.fingerprint, lease.token) for lease in held}
        with self._lock:
            self._renewing = None
            self._lost |= {(one.fingerprint, one.token) for one in leases} - good
            self._ahead.lose(one for one in ahead if (one.fingerprint, one.token) not in good)

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        with self._lock:
            self._ahead.ended(leases)
        if leases:
            self._wish(lambda: self.inside.released(leases, reason))

    def record(self, event: Event) -> int:
        """What acts on a cell is told at once, since a person waits for it."""
        if event.kind in ACTS:
            return self.inside.record(event)
        self._wish(lambda: self.inside.recorded(event))
        return self.inside.last() + 1

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        return self.inside.enroll(cells, paths=paths)

    def reap(self) -> Sequence[Fingerprint]:
        return self.inside.reap()

    def cells(
        self,
        *,
        states: Collection[State] | None = None,
        among: Collection[str] | None = None,
        whole: bool = False,
    ) -> Iterator[CellRecord]:
        return self.inside.cells(states=states, among=among, whole=whole)

    def events(
        self,
        since: int = 0,
        among: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
    ) -> Sequence[Event]:
        found = self.inside.events(since, among, kinds)
        with self._lock:  # whoever follows what others took is to ask for what waits for it here
            return [e for e in found if e.kind != "claimed" or e.fingerprint not in self._ahead]

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Give up what this thread asks meanwhile so soon where the remote is away."""
        return self.inside.within(seconds)

    def compact(self) -> int:
        """Remove the refs of cells that ended long ago; how many."""
        return self.inside.compact()

    def results_store(self) -> Any:
        return self.inside.results_store()

    def tables(self) -> AbstractContextManager[Iterator[tuple[str, Iterable[Row]]]]:
        return self.inside.tables()

    def fill(self, tables: Tables, *, seen: Seen = unseen) -> None:
        self.inside.fill(tables, seen=seen)

    def close(self) -> None:
        """Give back what was claimed ahead, and tell what waits, at once."""
        self._ending.set()
        if self._teller is not None:
            self._teller.join()
        with self._lock:
            ahead = self._ahead.clear()
        if ahead:
            self._wish(lambda: self.inside.released(ahead, "its runner ended"))
        if self._waiting:
            self._tell()
        self.inside.close()
