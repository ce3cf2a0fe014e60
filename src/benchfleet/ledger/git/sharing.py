"""Verbs of a ledger as transactions on a mirror, each told to the remote in one atomic push."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from benchfleet.errors import BenchfleetError, GitAway, GitDenied, GitError, LedgerError
from benchfleet.git.objects import kept
from benchfleet.ledger.git.address import ref_part
from benchfleet.ledger.git.mirror import Change
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.telling import Behind, Files, Told, tell
from benchfleet.ledger.hurry import Hurry
from benchfleet.ledger.sqlite.base import SqliteBase
from benchfleet.ledger.statements import Do

_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between tries; the last one stays
REFUSED = 50  # pushes in a row; of what was just seen a crowd never refuses as many
_CROWD = 64
T = TypeVar("T")
Verb = Callable[[], Any]


class SharedTransactions(SqliteBase):
    """What is done on the mirror is kept where its push went through, and else rolled back. A call
    rides out a remote that is away for `patience` seconds."""

    def __init__(self, store: Store, *, patience: float, fresh: float, files: Files | None) -> None:
        super().__init__(clock=store.clock, lease=store.lease)
        self.store, self._patience, self._fresh, self._files = store, patience, fresh, files
        self._hurry = Hurry()
        self._random = random.Random()  # noqa: S311 - it only spreads claims
        self._changing: Change | None = None
        self._crowd = 0  # how many seem to want what we want, when a push was refused
        self._tried = self._away_since = 0.0  # by time.monotonic; 0: the remote is there

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give up what this thread asks meanwhile so soon where the remote is away."""
        with self._hurry.within(seconds):
            yield

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
            if self._tried - since > self._patience or self._hurry:
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
        until = time.monotonic() + self._hurry.patience(usual)
        pauses, behind, refused = iter(_PAUSES), False, 0
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
                    with self.store.mirror.writing() as change:
                        answers = self._done(verbs, change)
                        told = tell(self.store, change, self._files)
                        self._push(told)
                    self._keep(told)
                    self._crowd = 0
                    return answers
            except Behind:
                told.commit = ""  # it was refused
                if (refused := refused + 1) >= REFUSED:
                    error = self._refused()
                    raise self.store.plain(error) from error
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

    def _refused(self) -> GitDenied:
        shown, why = self.store.shown, self.store.remote.refused
        return GitDenied(f"{shown} refuses what was just seen there, again and again: {why}")

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
        self,
        do: Do,
        kind: str,
        fingerprint: str,
        data: Mapping[str, Any],
        *,
        at: float | None = None,
    ) -> int:
        return super()._append(do, kind, fingerprint, data, at=self.store.wall())
