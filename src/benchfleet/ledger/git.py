"""The ledger of those who share nothing but a git repository.

Every verb is one transaction: it is done on the mirror, an SQLite file of this installation, told
to the remote in one atomic push, and kept only where that went through. A push changes the log of
the installation and, for each cell that it is about, the cell's claim from the object that was seen
to a new one. So whoever did not know the last thing that happened to a cell is refused, looks, and
decides anew; and no two logs ever tell two stories of one cell.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchfleet.domain.attempt import Claim, Lease, Outcome, RunnerId
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.event import Event
from benchfleet.domain.resource import Offer
from benchfleet.domain.state import FINAL_STATES
from benchfleet.errors import (
    BenchfleetError,
    ClaimLost,
    GitAway,
    GitDenied,
    GitError,
    LedgerError,
    LedgerUnreachable,
)
from benchfleet.git.objects import EMPTY_TREE, Objects, kept
from benchfleet.git.remote import Remote, Swap
from benchfleet.ledger.chosen_table import Do, Rows
from benchfleet.ledger.git_address import ref_part
from benchfleet.ledger.git_log import message
from benchfleet.ledger.git_mirror import ACTS, Change
from benchfleet.ledger.git_outbox import Outbox
from benchfleet.ledger.git_store import Store
from benchfleet.ledger.git_telling import Behind, Files, Told, tell
from benchfleet.ledger.sql import Clock, SqlLedger

LEASE = 1800.0  # seconds; a repository is no place for a heartbeat every few seconds
PATIENCE = 300.0  # seconds for a remote that is away, or refuses what it took before
FRESH = 1.0  # seconds for which readers go by what was seen
STALE = 15.0  # seconds after which a claim looks first, though it knows of cells that wait
_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between tries; the last one stays
_TOGETHER = 400  # refs in one push
_CROWD = 64
_OLD = 86400.0  # seconds; far more than a push takes, and than clocks are wrong by
_WINDOW = 1024  # cells that a claim chooses from, where others claim too
T = TypeVar("T")
Verb = Callable[[], Any]


def since_boot() -> float:
    """Seconds on a clock that no one sets and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class GitLedger(SqlLedger):
    """A ledger in the repository at `url`, made where there is none; without `make`, none raises
    `LedgerAbsent`.

    `folder` is where the installation keeps its mirror. Leases and back-offs are counted by
    `clock` from when this installation saw them begin; `wall` is only told. A call rides out a
    remote that is away for `patience` seconds, a renewal for a fifth of a lease.
    """

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
        super().__init__(clock=clock, lease=lease)
        self._patience, self._fresh, self._files = patience, fresh, files
        self._place, self._hurry = place, threading.local()
        self._random = random.Random()  # noqa: S311 - it only spreads claims
        self._changing: Change | None = None
        self._unheard: list[tuple[str, list[Any]]] = []  # claims that may have gone through
        self._crowd = 0  # how many seem to want what we want, when a push was refused
        self._wanted: object = None  # by the last claim
        self._tried = self._away_since = 0.0  # by time.monotonic; 0: the remote is there
        self.store = Store(
            url,
            campaign=campaign,
            folder=folder,
            lease=lease,
            clock=clock,
            wall=wall,
            make=make,
            host=host,
        )
        self._outbox = Outbox(self.store.folder / "outbox")
        if make:
            self._tell_outbox()

    def _tell_outbox(self) -> None:
        """Finish what was done when the remote was away."""
        for lease, outcome in self._outbox.waiting():
            with suppress(LedgerUnreachable, ClaimLost), self._outbox.holding(lease, outcome):
                self._alone(partial(self.finished, lease, outcome), patience=0.0)

    def close(self) -> None:
        self.store.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give up what this thread asks meanwhile so soon where the remote is away."""
        self._hurry.patience = seconds
        try:
            yield
        finally:
            del self._hurry.patience

    def compact(self, older: float = _OLD) -> int:
        """Remove the refs of cells that ended so many seconds ago, which the logs tell of anyway;
        how many. Whoever does not know of it is refused, since the ledger's own ref moves on."""
        removed = 0
        while True:
            self.look()
            try:
                with self.store.turn, self.store.mirror.writing() as change:
                    found = self._compacted(change, self.store.wall() - older)
            except Behind:
                continue
            except GitError as error:
                raise self.store.plain(error) from error
            removed += found
            if found < _TOGETHER:
                return removed

    def _compacted(self, change: Change, before: float) -> int:
        store, do = self.store, change.do
        old = do("ended_long_ago", before=before, limit=_TOGETHER).fetchall()
        if not old:
            return 0
        tip = store.mirror.tips(do)[store.refs.ledger][0]
        text = message(f"compact {len(old)} claims", campaign=store.campaign)
        commit = store.commit(EMPTY_TREE, (tip,), text)
        swaps = [Swap(ref=f"{store.refs.claims}{name}", old=object, new="") for name, object in old]
        if not store.remote.push([Swap(ref=store.refs.ledger, old=tip, new=commit), *swaps]):
            raise Behind
        do("moved", ref=store.refs.ledger, tip=commit, moved=self._clock())
        for name, _ in old:
            do("point", fingerprint=name, object="")
        return len(old)

    def place(self) -> Any:
        """The results that lie in the repository, as `benchfleet.results.places.base.Place`."""
        if self._place is None:
            raise LedgerError(f"{self.store.shown} was opened without its results")
        return self._place(self.store.remote, self.store.objects, self.store.shown)

    # Transactions

    def look(self) -> None:
        """Take in what happened elsewhere. Raises LedgerUnreachable."""
        until = time.monotonic() + self._patience
        pauses = iter(_PAUSES)
        while True:
            try:
                return self.store.look()
            except GitError as error:
                self._bear(error, until, next(pauses, _PAUSES[-1]))

    def _look_after(self, seconds: float) -> None:
        """Look again where that is so long ago. While the remote is away, what was seen serves,
        until patience ends: then LedgerUnreachable is raised."""
        if time.monotonic() - max(self.store.looked, self._tried) >= seconds:
            self._unless_away(self.store.look, None)

    def _unless_away(self, ask: Callable[[], T], otherwise: T) -> T:
        try:
            answer = ask()
        except (GitAway, GitDenied) as error:
            self._tried = time.monotonic()
            self._away_since = since = self._away_since or self._tried
            if self._tried - since > self._patience or hasattr(self._hurry, "patience"):
                raise self.store.plain(error) from error
            return otherwise
        except GitError as error:
            raise self.store.plain(error) from error
        self._away_since = 0.0
        return answer

    def _bear(self, error: GitError, until: float, pause: float) -> None:
        """Wait a little where it may go well next time, until patience ends; else raise it in
        plain words."""
        passes = isinstance(error, (GitAway, GitDenied))
        if not passes or time.monotonic() + pause > until or self.store.ending.wait(pause):
            raise self.store.plain(error) from error

    def shared(
        self,
        verbs: Sequence[Verb],
        *,
        patience: float | None = None,
        unheard: list[tuple[str, list[Any]]] | None = None,
    ) -> list[Any]:
        """Do these verbs here and at the remote, all of them or none, and answer for each.

        One that raises an error of ours changes nothing, and that error is its answer. Raises
        LedgerUnreachable; what was pushed then, and may have gone through, is added to `unheard`.
        """
        usual = self._patience if patience is None else patience
        until = time.monotonic() + getattr(self._hurry, "patience", usual)
        pauses, behind = iter(_PAUSES), False
        answers: list[Any] = []
        told = Told()
        while True:
            try:
                with self.store.turn:
                    if behind:
                        self.store.look()
                        if told.commit and self.store.went_through(told.commit):
                            self._complete(told)
                            return answers
                    told = Told()
                    with self._kept_or_not(), self.store.mirror.writing() as change:
                        answers = self._done(verbs, change)
                        told = tell(self.store, change, self._files)
                        self._push(told)
                    self._keep(told)
                    self._crowd = 0
                    return answers
            except Behind:
                told.commit = ""  # it was refused
                if behind:  # though we looked
                    self._crowd = min(_CROWD, 2 * max(self._crowd, len(self.store.names)))
                self.store.ending.wait(self._random.uniform(0, 0.05) * behind)
            except GitError as error:
                try:
                    self._bear(error, until, next(pauses, _PAUSES[-1]))
                except LedgerError:
                    if unheard is not None and told.commit:
                        unheard.append((told.commit, answers))
                    raise
            behind = True

    @contextmanager
    def _kept_or_not(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._chosen.take_back()
            raise
        self._chosen.keep()

    def _done(self, verbs: Sequence[Verb], change: Change) -> list[Any]:
        self._changing = change
        try:
            return [self._attempted(verb, change) for verb in verbs]
        finally:
            self._changing = None

    def _attempted(self, verb: Verb, change: Change) -> Any:
        try:
            with change.part():
                return verb()
        except BenchfleetError as error:
            self._chosen.take_back()
            return error

    def _push(self, told: Told) -> None:
        swaps = told.swaps
        if swaps and not self.store.remote.push(swaps, holding=told.holding):
            raise Behind

    def _complete(self, told: Told) -> None:
        """Move the branch of results too: a remote that goes away while it changes refs may have
        changed only some of them. Raises GitAway, GitDenied."""
        with self.store.mirror.reading() as do:
            tip = self.store.mirror.tips(do).get(self.store.machine, ("", 0.0))[0]
        for swap in told.swaps:
            if swap.ref == self.store.machine and swap.old == tip:
                self.store.remote.push([swap])
                self.store.look()

    def _keep(self, told: Told) -> None:
        for swap in told.swaps:
            if not swap.ref.startswith(self.store.refs.claims):
                kept(self.store.git, ref_part(swap.ref), swap.new)

    def _alone(self, verb: Callable[[], T], *, patience: float | None = None) -> T:
        """One verb. Raises what it raises."""
        (answer,) = self.shared([verb], patience=patience)
        if isinstance(answer, BaseException):
            raise answer
        found: T = answer
        return found

    @property
    def _change(self) -> Change:
        if self._changing is None:
            raise RuntimeError("a ledger is written by its verbs alone")
        return self._changing

    @contextmanager
    def _writing(self, *, synced: bool = True) -> Iterator[Do]:
        yield self._change.do

    @contextmanager
    def _reading(self) -> Iterator[Do]:
        self._look_after(self._fresh)
        with self.store.mirror.reading() as do:
            yield do

    def _append(
        self, do: Do, kind: str, fingerprint: str, data: Any, *, at: float | None = None
    ) -> int:
        return super()._append(do, kind, fingerprint, data, at=self.store.wall())

    # The verbs

    def enroll(self, cells: Iterable[Cell], *, paths: Mapping[Fingerprint, str] = {}) -> int:
        declared = list(cells)  # it may have to be done again
        self._look_after(self._fresh)
        return self._alone(lambda: super(GitLedger, self).enroll(declared, paths=paths))

    def claim(self, runner: RunnerId, offer: Offer, limit: int = 1) -> Sequence[Claim]:
        self._look_after(STALE)
        began = time.monotonic()
        claims = self._claim_now(runner, offer, limit)
        if len(claims) < limit and began - self.store.looked >= self._fresh:
            self._look_after(self._fresh)
            claims += self._claim_now(runner, offer, limit - len(claims))
        return claims

    def _claim_now(self, runner: RunnerId, offer: Offer, limit: int) -> list[Claim]:
        """Nothing, where the remote is away."""

        wanted = runner, offer, limit

        def ask() -> list[Claim]:
            try:
                if found := self._heard_late(wanted):
                    return found
                self._wanted = wanted
                verbs = [lambda: self.claimed(runner, offer, limit)]
                (claims,) = self.shared(verbs, patience=0.0, unheard=self._unheard)
                return list(claims)
            except LedgerUnreachable as error:
                if isinstance(error.__cause__, GitError):
                    raise error.__cause__ from None
                raise

        return self._unless_away(ask, []) if limit else []

    def claimed(self, runner: RunnerId, offer: Offer, limit: int) -> Sequence[Claim]:
        """`claim` as a verb among others."""
        return super().claim(runner, offer, limit)

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

    def _best(self, claimable: Callable[..., Rows], limit: int) -> list[Any]:
        """Where others claim too, each first takes the best of its own share, so that few pushes
        meet; then chooses among all."""
        names = self.store.names
        many = len(names)
        if max(self._crowd, many) < 2:
            return claimable(limit=limit, many=1, own=0).fetchall()
        mine: list[Any] = []
        if self._crowd <= many:  # else there are newcomers, whose names are not known yet
            best = claimable(limit=1, many=1, own=0).fetchone()
            own = claimable(limit=limit, many=many, own=names.index(self.store.number))
            mine = [row for row in own.fetchall() if _priority(row) == _priority(best)]
        if len(mine) < limit:
            window = max(limit, min(_WINDOW, 8 * limit * max(self._crowd, many)))
            rows = claimable(limit=window, many=1, own=0).fetchall()
            first = [row for row in rows if _priority(row) == _priority(rows[0])]
            left = [row for row in first if row not in mine]
            mine += self._random.sample(left, min(limit - len(mine), len(left)))
            mine += rows[len(first) :][: limit - len(mine)]
        return mine

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
        return self._alone(super().reap)

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


def _priority(row: Any) -> int:
    priority: int = json.loads(row[7])["priority"]
    return priority
