"""Runs the ledger's verbs as transactions on the mirror, each with one atomic push."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchfleet.domain.attempt import Claim, Lease
from benchfleet.errors import GitAway, GitDenied, GitError, GitKilled
from benchfleet.git.objects import write_pin
from benchfleet.git.process import is_interrupted
from benchfleet.ledger.git.address import ref_part
from benchfleet.ledger.git.mirror_transaction import MirrorTransaction, Verb
from benchfleet.ledger.git.push_builder import Files, Push, StaleMirror, build_push
from benchfleet.ledger.git.store import Store
from benchfleet.ledger.git.sync import Sync

_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)  # between tries; the last one stays
MAX_REFUSALS = 50  # in a row, of what was just pulled: a crowd never causes as many
_BACKOFF_S = 0.02  # more after each refusal: all of them last longer than an incomplete push
T = TypeVar("T")
OneVerb = Callable[[MirrorTransaction], T]
RetryPause = Callable[[GitError], float]  # hears why a push failed; seconds until the next


class Transactions:
    """A transaction whose push is refused is rolled back, and tried again after a pull. A call
    waits up to `timeout` seconds for a remote that is away."""

    def __init__(self, store: Store, sync: Sync, *, timeout: float, files: Files | None) -> None:
        self._store, self._sync, self._timeout, self._files = store, sync, timeout, files
        self._call_timeout = store.call_timeout
        self._failed_at = self._away_since = 0.0  # by time.monotonic; 0: the remote is there
        self.problem = ""  # see `Ledger.problem`
        self._unconfirmed: list[tuple[str, list[Lease]]] = []  # claims whose push got no answer

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """See `Ledger.within`."""
        return self._call_timeout.within(seconds)

    # Reading

    def refresh(self, max_age: float) -> None:
        """Pull if the last pull is older. While the remote is away the mirror serves; after
        `timeout` seconds of that raises LedgerUnreachable."""
        if time.monotonic() - max(self._sync.pulled_at, self._failed_at) >= max_age:
            self._unless_away(self._sync.pull, None)

    def _unless_away(self, ask: Callable[[], T], otherwise: T) -> T:
        with self._store.ledger_errors():
            try:
                answer = ask()
            except (GitAway, GitDenied):
                self._failed_at = time.monotonic()
                self._away_since = since = self._away_since or self._failed_at
                if self._failed_at - since > self._timeout or self._call_timeout.is_set:
                    raise
                return otherwise
        self._away_since = 0.0
        return answer

    def _may_pass(self, error: GitError, until: float, pause: float) -> bool:
        """Wait a little for a remote that is away; False when there is no time left for that."""
        late = is_interrupted() or time.monotonic() + pause > until
        if late or not isinstance(error, (GitAway, GitDenied)):
            return False
        self.problem = str(self._store.ledger_error(error))
        return not self._store.closing.wait(pause)

    # Writing

    def run(
        self,
        verbs: Sequence[Verb],
        *,
        timeout: float | None = None,
        retry_pause: RetryPause | None = None,
    ) -> list[Any]:
        """Run verbs in one transaction, all of them or none; the answer of each.

        A verb that raises an error of ours changes nothing, and that error is its answer. With
        `retry_pause` it retries until the remote takes the push. Raises LedgerUnreachable.
        """
        usual = self._timeout if timeout is None else timeout
        until = time.monotonic() + self._call_timeout.seconds(usual)
        with self._store.ledger_errors():
            return self._run(verbs, math.inf if retry_pause else until, retry_pause)

    def run_one(self, verb: OneVerb[T], *, timeout: float | None = None) -> T:
        """Run one verb. Raises what it raises."""
        answer: T = _the_answer(self.run([verb], timeout=timeout))
        return answer

    def run_unless_away(self, verb: OneVerb[T], otherwise: T) -> T:
        """Run one verb without waiting; `otherwise` while the remote is away."""
        run = self._run
        return self._unless_away(lambda: _the_answer(run([verb], time.monotonic())), otherwise)

    def _run(
        self, verbs: Sequence[Verb], until: float, retry_pause: RetryPause | None = None
    ) -> list[Any]:
        attempt, pauses, refusals, stale = _Attempt(), _pauses(), 0, False
        while True:
            try:
                self._attempt(verbs, attempt, stale)
                self.problem = ""
                return attempt.answers
            except StaleMirror:
                attempt.push = Push()
                refusals += 1
                if refusals >= MAX_REFUSALS:  # perhaps a lock file that somebody has to remove
                    refused = self._refused()
                    pause = retry_pause(refused) if retry_pause else next(pauses)
                    if not self._may_pass(refused, until, pause):
                        raise refused from None
                elif refusals > 1:  # the first pull may be enough
                    limit = _BACKOFF_S * refusals
                    self._store.closing.wait(random.uniform(0, limit))  # noqa: S311
            except GitError as error:
                if isinstance(error, GitKilled) and not attempt.killed:
                    attempt.killed = stale = True
                    continue
                pause = retry_pause(error) if retry_pause else next(pauses)
                if not self._may_pass(error, until, pause):
                    if attempt.push.commit and (leases := _claimed(attempt.answers)):
                        self._unconfirmed.append((attempt.push.commit, leases))
                    raise
            stale = True

    def _attempt(self, verbs: Sequence[Verb], attempt: _Attempt, stale: bool) -> None:
        """Run the verbs and push, unless the last push went through but its answer was lost."""
        store = self._store
        with store.lock:
            if stale:
                self._sync.pull()
                if attempt.push.commit and self._sync.has_pushed(attempt.push.commit):
                    self._complete(attempt.push)
                    return
            attempt.push = Push()
            with store.mirror.writing() as writer:
                transaction = MirrorTransaction(
                    writer, clock=store.clock, wall=store.wall, lease=store.lease
                )
                if stale:
                    self._release_unconfirmed(transaction)
                attempt.answers = [transaction.attempt(verb) for verb in verbs]
                attempt.push = build_push(store, transaction, self._files)
                if attempt.push.updates:
                    self._send(attempt.push, stale)
            for update in attempt.push.updates:
                if not update.ref.startswith(store.refs.claims):
                    write_pin(store.git, ref_part(update.ref), update.new)

    def _send(self, push: Push, stale: bool) -> None:
        if self._unconfirmed and not stale:
            raise StaleMirror  # after a pull they are given back in the same push
        if not self._store.remote.push(push.updates, expected=push.expected):
            raise StaleMirror
        self._unconfirmed.clear()

    def _refused(self) -> GitDenied:
        label, why = self._store.label, self._store.remote.refused
        return GitDenied(f"{label} refuses what was just seen there, again and again: {why}")

    def _release_unconfirmed(self, transaction: MirrorTransaction) -> None:
        """Give back the claims that reached the remote but its answer was lost."""
        for commit, leases in self._unconfirmed:
            if self._sync.has_pushed(commit):
                transaction.release(leases, "the answer to its claim was lost")

    def _complete(self, push: Push) -> None:
        """Move the branch of results too: a remote that goes away while it changes refs may have
        changed only some of them. Raises GitAway, GitDenied."""
        store = self._store
        with store.mirror.reading() as execute:
            tip = store.mirror.tips(execute).get(store.machine, ("", 0.0))[0]
        for update in push.updates:
            if update.ref == store.machine and update.old == tip:
                store.remote.push([update])
                self._sync.pull()


@dataclass
class _Attempt:
    """The last try of a transaction."""

    push: Push = field(default_factory=Push)
    answers: list[Any] = field(default_factory=list)
    killed: bool = False  # SIGTERM ended a push already


def _pauses() -> Iterator[float]:
    yield from _PAUSES_S
    while True:
        yield _PAUSES_S[-1]


def _the_answer(answers: Sequence[T | BaseException]) -> T:
    (answer,) = answers
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _claimed(answers: Sequence[Any]) -> list[Lease]:
    """The leases of all claims among the answers."""
    lists = [answer for answer in answers if isinstance(answer, list)]
    return [claim.lease for claims in lists for claim in claims if isinstance(claim, Claim)]
