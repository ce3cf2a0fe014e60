"""The ledger of those who share nothing but a git repository.

Every verb is one transaction: it is done on the mirror, an SQLite file of this installation, told
to the remote in one atomic push, and kept only where that went through. A push changes the log of
the installation and, for each cell that it is about, the cell's claim from the object that was seen
to a new one. So whoever did not know the last thing that happened to a cell is refused, looks, and
decides anew; and no two logs ever tell two stories of one cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.seen import Seen, unseen
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import (
    ClaimLost,
    GitAway,
    GitDenied,
    GitError,
    LedgerError,
    LedgerUnreachable,
)
from benchfleet.git.objects import Objects
from benchfleet.git.remote import Remote
from benchfleet.git.repack import Repacker
from benchfleet.ledger.base import Clock, since_boot
from benchfleet.ledger.copying import Row, TableLedger, Tables
from benchfleet.ledger.git.filling import fill
from benchfleet.ledger.git.outbox import Outbox
from benchfleet.ledger.git.sharing import SharedTransactions
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.taking import ACTS
from benchfleet.ledger.git.telling import Behind, Files
from benchfleet.ledger.git.tidying import Tidying

LEASE = 1800.0  # seconds; a repository is no place for a heartbeat every few seconds
PATIENCE = 300.0  # seconds for a remote that is away, or refuses what it took before
FRESH = 1.0  # seconds for which readers go by what was seen
STALE = 15.0  # seconds after which a claim looks first, though it knows of cells that wait
_TOGETHER = 400  # refs in one push


class GitLedger(SharedTransactions, TableLedger):
    """A ledger in the repository at `url`, made where there is none; without `make`, none raises
    `LedgerAbsent`.

    `folder` is where the installation keeps its mirror. Leases and back-offs are counted by
    `clock` from when this installation saw them begin; `wall` is only told. A call rides out a
    remote that is away for `patience` seconds, a renewal for a fifth of a lease.
    """

    multi_host = True
    usual_lease = LEASE
    carries_results = True

    def __init__(
        self,
        url: str,
        *,
        campaign: str,
        folder: Path,
        lease: float = LEASE,
        clock: Clock = since_boot,
        wall: Clock = time.time,
        patience: float = PATIENCE,
        fresh: float = FRESH,
        make: bool = True,
        files: Files | None = None,
        place: Callable[[Remote, Objects, str], Any] | None = None,
        host: str = "",
    ) -> None:
        store = Store(
            url,
            campaign=campaign,
            folder=folder,
            lease=lease,
            clock=clock,
            wall=wall,
            make=make,
            host=host,
        )
        super().__init__(store, patience=patience, fresh=fresh, files=files)
        self._place, self._tidying, self._repacker = place, Tidying(store), Repacker(store.git)
        self._unheard: list[tuple[str, list[Any]]] = []  # claims that may have gone through
        self._wanted: object = None  # by the last claim
        self._outbox = Outbox(self.store.folder / "outbox")
        if make:
            self._tell_outbox()

    def _tell_outbox(self) -> None:
        """Finish what was done when the remote was away."""
        for lease, outcome in self._outbox.waiting():
            with suppress(LedgerUnreachable, ClaimLost), self._outbox.holding(lease, outcome):
                self._alone(partial(self.finished, lease, outcome), patience=0.0)

    def close(self) -> None:
        self._repacker.close()
        self.store.close()

    def compact(self) -> int:
        """Remove the refs of cells that ended more than a day ago; how many."""
        with self.store.plainly():
            removed = self._tidying.compact()
            with suppress(Behind):  # another tells it
                self._tidying.told(self.last())
        return removed

    def results_store(self) -> Any:
        """The results that lie in the repository, as `benchfleet.results.places.base.Place`. Raises
        LedgerError where it was opened without them."""
        if self._place is None:
            raise LedgerError(f"{self.store.shown} was opened without its results")
        with suppress(GitAway, GitDenied):  # whoever asks the place hears of it
            self.store.complete()
        return self._place(self.store.remote, self.store.objects, self.store.shown)

    @contextmanager
    def tables(self) -> Iterator[Iterator[tuple[str, Iterable[Row]]]]:
        """What was seen of it until now, as `benchfleet.ledger.copying` brings it elsewhere."""
        self.store.look()
        with self.store.mirror.tables(self.store.wall() - self._clock()) as tables:
            yield tables

    def fill(self, tables: Tables, *, seen: Seen = unseen) -> None:
        """Enter what another ledger has, where this one is empty. Raises LedgerError."""
        fill(self.store, tables, self._files, seen)

    # The verbs

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be done again
        self._look_after(self._fresh)
        return self._alone(lambda: super(GitLedger, self).enroll(declared, paths=paths))

    def claim(self, runner: RunnerId, candidates: Sequence[str], limit: int = 1) -> Sequence[Claim]:
        self._look_after(STALE)
        began = time.monotonic()
        claims = self._claim_now(runner, candidates, limit)
        if len(claims) < limit and began - self.store.looked >= self._fresh:
            self._look_after(self._fresh)
            claims += self._claim_now(runner, candidates, limit - len(claims))
        return claims

    def _claim_now(self, runner: RunnerId, candidates: Sequence[str], limit: int) -> list[Claim]:
        """Nothing, where the remote is away."""
        wanted = runner, tuple(candidates), limit

        def ask() -> list[Claim]:
            try:
                if found := self._heard_late(wanted):
                    return found
                self._wanted = wanted
                verbs = [lambda: self.claimed(runner, candidates, limit)]
                (claims,) = self.shared(verbs, patience=0.0, unheard=self._unheard)
                return list(claims)
            except LedgerUnreachable as error:
                if isinstance(error.__cause__, GitError):
                    raise error.__cause__ from None
                raise

        return self._unless_away(ask, []) if limit and candidates else []

    def claimed(self, runner: RunnerId, candidates: Sequence[str], limit: int) -> Sequence[Claim]:
        """`claim` as a verb among others."""
        return super().claim(runner, candidates, limit)

    def _heard_late(self, wanted: object) -> list[Claim]:
        """The claims of which it was not known whether they went through, if they are just what is
        wanted; else they are given back."""
        found: list[Claim] = []
        while self._unheard:
            self.store.look()
            commit, (claims,) = self._unheard.pop()
            if claims and self.store.went_through(commit):
                if wanted == self._wanted:
                    found += claims
                else:
                    self.release([claim.lease for claim in claims], "its claim was not heard of")
        return found

    def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        held: list[Lease] = []
        for start in range(0, len(leases), _TOGETHER):
            some = leases[start : start + _TOGETHER]
            held += self._alone(lambda some=some: self.renewed(some), patience=self._lease / 5)  # type: ignore[misc]
        return held

    def renewed(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """`renew` as a verb among others."""
        held = super().renew(leases)
        self._change.renewed += [lease.fingerprint for lease in held]
        return held

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        """What could not be told before the remote was away for too long is in the outbox then, and
        told when the ledger is opened next."""
        with self.kept(lease, outcome):
            self._alone(lambda: self.finished(lease, outcome))

    def kept(self, lease: Lease, outcome: Outcome) -> AbstractContextManager[None]:
        """A context in which an outcome waits in the outbox."""
        return self._outbox.holding(lease, outcome)

    def moved(self, seconds: float) -> tuple[int, int]:
        """After a look: how many installations are at work, and how many pushed in so many
        seconds."""
        self._unless_away(self.store.look, None)
        with self.store.mirror.reading() as do:
            tips = self.store.mirror.tips(do)
        since, logs = self._clock() - seconds, self.store.refs.logs
        lately = sum(ref.startswith(logs) and moved >= since for ref, (_, moved) in tips.items())
        return len(self.store.names), lately

    def last(self) -> int:
        """The number of the last event that was seen."""
        with self.store.mirror.reading() as do:
            number: int = do("how_much").fetchone()[1]
        return number

    def finished(self, lease: Lease, outcome: Outcome) -> None:
        """`finish` as a verb among others."""
        events = self._change.count()
        super().finish(lease, outcome)
        if self._change.count() > events:  # else it was asked again
            self._change.finished.append((lease, outcome))

    def release(self, leases: Sequence[Lease], reason: str) -> None:
        if leases:
            self._alone(lambda: self.released(leases, reason))

    def released(self, leases: Sequence[Lease], reason: str) -> None:
        """`release` as a verb among others."""
        super().release(leases, reason)

    def reap(self) -> Sequence[Fingerprint]:
        self._look_after(self._fresh)
        out = self._alone(super().reap)
        self._repacker.start()
        if self._random.random() * len(self.store.names) < 1.0:
            self._tidying.now_and_then()
        return out

    def record(self, event: Event) -> int:
        if event.kind in ACTS:
            self._look_after(self._fresh)
        return self._alone(lambda: self.recorded(event))

    def recorded(self, event: Event) -> int:
        """`record` as a verb among others."""
        row = self._change.do("held", fingerprint=event.fingerprint).fetchone()
        seq = super().record(event)
        ended = row is not None and row[1] in FINAL_STATES
        if row is None or ended != (event.kind == "retry_asked"):
            self._change.idle.add(seq)
        return seq
