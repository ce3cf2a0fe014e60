"""Records how attempts begin and end, in folder and ledger."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure
from benchfleet.domain.part import whole_of
from benchfleet.domain.usage import Rate
from benchfleet.engines.base import Done, SlotSpec
from benchfleet.errors import ClaimLost, LedgerError, ResultsError
from benchfleet.results.read import log_tail
from benchfleet.results.reuse import ReusableAnswers
from benchfleet.results.samples import (
    count_answered,
    count_samples,
    earlier_samples,
    last_of_each,
)
from benchfleet.results.staged_files import Sealed
from benchfleet.results.write import (
    LostSamples,
    Sealing,
    Verdict,
)
from benchfleet.runner.attempt.attempt import Attempt, EndedAttempt
from benchfleet.runner.attempt.joined import Joined
from benchfleet.runner.attempt.retry_policy import (
    charged,
    first_reason,
    is_outage,
    next_advice,
    retry_in,
)
from benchfleet.runner.attempt.timeouts import AttemptTimeouts
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.result_storage import ResultStorage

Prepared = tuple[EndedAttempt, Outcome]  # sealed, or its failure kept


class AttemptRecorder:
    """Begins and ends attempts. Whatever ends one does it here, in this order: folder, ledger,
    public path."""

    def __init__(self, context: RunnerContext, storage: ResultStorage = ResultStorage()) -> None:  # noqa: B008 - frozen
        self._ledger = context.ledger
        self._layout = context.layout
        self._heartbeat = context.heartbeat
        self._folder = storage.folder
        self._seal_all = storage.seal_all
        self._publish_all = storage.publish_all
        self._reusable = ReusableAnswers(context.layout)
        self._provenance, self._random = context.local_host.provenance, context.random

    def make_attempt(
        self,
        claim: Claim,
        *,
        spec: SlotSpec,
        host: str,
        device: str,
        now: float,
        provenance: Mapping[str, Any],
        rate: Rate = Rate(),  # noqa: B008 - frozen
        joined: Joined | None = None,
    ) -> Attempt:
        """Make the folder; the next attempt goes on after earlier samples, those of the cell's
        parts too."""
        folder = self._folder(self._layout.attempt(claim.lease))
        recorded = b"" if folder.first else earlier_samples(folder.folder.parent)
        if (part := claim.cell.part) and not recorded:
            # What the whole cell had recorded before it was split.
            of_whole = self._layout.attempts_of(whole_of(claim.cell).fingerprint)
            recorded = earlier_samples(of_whole, part.may_hold)
        if joined:
            recorded = last_of_each(recorded + joined.recorded)
        if not recorded and not claim.cell.part:
            recorded = self._reusable.of(claim.cell)
        if recorded:
            folder.record(recorded)
        return Attempt(
            claim=claim,
            folder=folder,
            spec=spec,
            recorded=recorded,
            host=host,
            device=device,
            began=now,
            provenance=provenance,
            rate=rate,
            timeouts=AttemptTimeouts(claim.cell.limits, began=now),
            done=(samples := count_answered(recorded)),
            before=samples,
            joined=joined,
        )

    def succeed(self, attempt: Attempt, done: Done) -> Outcome:
        """End one that ended well. Raises what `write` says of it."""
        (ended,) = self.write([EndedAttempt(attempt=attempt, how=done, seconds=done.seconds)])
        if isinstance(ended, Exception):
            raise ended
        return ended

    def write(self, some: Sequence[EndedAttempt]) -> Sequence[Outcome | Exception]:
        """Seal, finish, publish: each step for all of these before the next one; of each its
        outcome, or what went wrong.

        `ClaimLost`: nothing of it is published. A score that is none, or a disk that takes no more,
        makes it a failure of stage ``collect``; a public path that is occupied is a ResultsError,
        after the finish. Raises what the ledger's finish does: then nothing is published.
        """
        prepared = list(zip(some, self._prepare(some), strict=True))
        ended = [(one.attempt.claim.lease, outcome) for one, outcome in prepared]
        try:
            refused = self._ledger.finish_all(ended)
        finally:
            for lease, _ in ended:
                self._heartbeat.drop(lease)
        return self._publish(prepared, refused)

    def _publish(
        self, some: Sequence[Prepared], refused: Sequence[ClaimLost | None]
    ) -> list[Outcome | Exception]:
        """Give what was finished its public path, and remove the results of parts that were joined.
        Of each its outcome, or what went wrong."""
        results: list[Outcome | Exception] = [
            error or outcome for error, (_, outcome) in zip(refused, some, strict=True)
        ]
        good = [index for index, one in enumerate(results) if not _ended_badly(one)]
        moves = [
            (ended.attempt.folder.folder, self._layout.published(ended.path))
            for ended, _ in (some[index] for index in good)
        ]
        for index, wrong in zip(good, self._publish_all(moves), strict=True):
            results[index] = wrong or results[index]
            if wrong is None and (joined := some[index][0].attempt.joined):
                for path in joined.paths:  # all that they have is in the result now
                    shutil.rmtree(self._layout.published(path), ignore_errors=True)
        return results

    def _prepare(self, some: Sequence[EndedAttempt]) -> list[Outcome]:
        """Seal what ended well, and keep the reason of what did not."""
        well = [(one.attempt, one.how) for one in some if isinstance(one.how, Done)]
        sealed = iter(self._seal_all([self._sealing(attempt, done) for attempt, done in well]))
        return [
            self._outcome(one.attempt, one.how, next(sealed))
            if isinstance(one.how, Done)
            else self._failed_outcome(one.attempt, one.how, one.seconds)
            for one in some
        ]

    def _sealing(self, attempt: Attempt, done: Done) -> Sealing:
        claim, joined = attempt.claim, attempt.joined
        size = claim.batch_size or done.provenance.get("batch_size", 1)  # 0: the slot chose it
        if joined:
            size = joined.batch_size(size)
        provenance = {
            **self._provenance(),
            **attempt.provenance,
            "model": done.provenance or (joined.provenance if joined else {}),
            "host": attempt.host,
            "device": attempt.device,
            "rescored": attempt.rescored,
            "seed": claim.cell.data_seed,
            "attempt": claim.lease.attempt,
            **({} if attempt.rescored or size is None else {"effective_batch_size": size}),
            "resumed_samples": count_samples(attempt.recorded),
            **({"parts": list(joined.parts)} if joined else {}),
        }
        verdict = Verdict(
            score=done.score,
            seconds=attempt.seconds(done.seconds),
            provenance=provenance,
            telemetry=attempt.telemetry.summary(),
            usage=attempt.usage.to_dict(),
        )
        return Sealing(folder=attempt.folder, cell=claim.cell, path=claim.path, verdict=verdict)

    def _outcome(self, attempt: Attempt, done: Done, sealed: Sealed | Exception) -> Outcome:
        if isinstance(sealed, OSError):
            return self._failed_outcome(attempt, unwritable(sealed), done.seconds)
        if isinstance(sealed, LostSamples):  # scoring again would lack them too
            failure = Failure(stage="benchmark", kind="error", message=str(sealed))
            return self._failed_outcome(attempt, failure, done.seconds)
        if isinstance(sealed, (ValueError, KeyError, TypeError)):
            failure = Failure(stage="collect", kind="bad_result", message=str(sealed))
            return self._failed_outcome(attempt, failure, done.seconds)
        if isinstance(sealed, Exception):
            raise sealed
        return Outcome(
            state="success",
            digest=sealed.digest,
            metrics=sealed.metrics,
            reported=sealed.reported,
            seconds=attempt.seconds(done.seconds),
            host=attempt.host,
            device=attempt.device,
            usage=attempt.usage,
            device_type=attempt.spec.devices[0].type if attempt.spec.devices else "",
            resumed=0 if attempt.joined else attempt.before,
        )

    def _failed_outcome(
        self, attempt: Attempt, failure: Failure, seconds: Mapping[str, float]
    ) -> Outcome:
        """Keep the reason with the last log lines, and ask for another try, which does something
        differently where memory ran out. Samples kept make the final state ``partial``."""
        after, advised = attempt.claim.retry_of, attempt.claim.advice
        failure = replace(failure, log_tail=log_tail(attempt.folder.log))
        with contextlib.suppress(OSError):  # a full disk; the ledger keeps the reason too
            attempt.folder.fail(failure, attempt.telemetry.summary())
        failures = after.failures if after else {}
        advice = next_advice(failure, advised, attempt.had)
        cell, before = attempt.claim.cell, failures.get(failure.kind, 0)
        outage = is_outage(failure, cell)
        uses_try = advice is None and charged(failure, before=before, outage=outage)
        tries = attempt.claim.tries + uses_try
        return Outcome(
            state="partial" if attempt.done else "failed",
            failure=failure,
            metrics={"samples": attempt.done, **attempt.checkpoint},
            seconds=seconds,
            host=attempt.host,
            device=attempt.device,
            device_type=attempt.spec.devices[0].type if attempt.spec.devices else "",
            charged=uses_try,
            retry_in=retry_in(
                failure,
                charged=uses_try,
                tries=tries,
                allowed=cell.limits.tries,
                random=self._random,
                outages=before if outage else None,
            ),
            advice=advice or advised,
            first=first_reason(after, failure),
            failures=Counter(failures) + Counter({failure.kind: 1}),
            usage=attempt.usage,
        )

    def give_back(self, attempt: Attempt, reason: str) -> None:
        """Release the cell; its samples stay for the next attempt."""
        self.abandon(attempt)
        self._ledger.release([attempt.claim.lease], reason)

    def abandon(self, attempt: Attempt) -> None:
        """End an attempt whose claim was lost; its samples stay unless the cell is published."""
        attempt.folder.close()
        self._heartbeat.drop(attempt.claim.lease)
        if self._layout.published(attempt.claim.path).is_dir():  # another was quicker
            attempt.folder.discard()
        self._account(attempt)

    def _account(self, attempt: Attempt) -> None:
        """Keep what an attempt without an outcome used up, which is to be paid for all the same."""
        lease = attempt.claim.lease
        data = {"attempt": lease.attempt, "token": lease.token, "host": attempt.host}
        data["usage"] = attempt.usage.to_dict()
        with contextlib.suppress(LedgerError):  # what ends it matters more
            self._ledger.record(Event(kind="used", fingerprint=lease.fingerprint, data=data))


def _ended_badly(ended: Outcome | Exception) -> bool:
    return isinstance(ended, Exception) or ended.failure is not None


def unwritable(error: OSError | ResultsError) -> Failure:
    """The failure that a result which cannot be written is."""
    if isinstance(error, ResultsError):
        return Failure(stage="collect", kind="bad_result", message=str(error))
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return Failure(
        stage="collect",
        kind="disk_full" if full else "error",
        message=f"the result cannot be written: {error}",
        retryable=True,
    )
