"""One attempt as the runner sees it, and the ways it ends in folder and ledger."""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import Claim, Outcome
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure, Stage
from benchfleet.domain.telemetry import Telemetry
from benchfleet.domain.usage import Rate, Usage
from benchfleet.engines.base import Done, SlotSpec
from benchfleet.errors import LedgerError, ResultsError
from benchfleet.ledger.base import Ledger
from benchfleet.results.layout import Layout
from benchfleet.results.publish import Publish, publish
from benchfleet.results.read import log_tail
from benchfleet.results.samples import count_samples, earlier_samples
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.runner.leases import LeaseKeeper
from benchfleet.runner.overdue import Watch
from benchfleet.runner.retry import Memory, charged, first_reason, next_advice, retry_in


@dataclass(kw_only=True)
class Attempt:
    """A claimed cell on its slot."""

    claim: Claim
    folder: AttemptFolder
    spec: SlotSpec
    recorded: bytes  # samples of earlier attempts, already in this one's file
    host: str
    device: str
    began: float  # on the inbox's clock
    provenance: Mapping[str, Any]  # of its host, where that is not this machine
    watch: Watch
    stage: Stage = "load"
    done: int = 0  # samples
    before: int = 0  # of these, that earlier attempts had answered
    had: Memory = field(default_factory=Memory)  # when it ended
    cancelled_at: float | None = None  # on the inbox's clock
    rate: Rate = field(
        default_factory=Rate
    )  # what its slot holds of its machine, and what that costs
    took: float = 0.0  # seconds, when it ended
    telemetry: Telemetry = field(default_factory=Telemetry)
    rescored: bool = False  # what earlier attempts answered was scored, and nothing was asked

    @property
    def key(self) -> str:
        """How slots name it: ``<fingerprint>/<attempt>-<token>``."""
        lease = self.claim.lease
        return f"{lease.fingerprint}/{lease.attempt}-{lease.token}"

    @property
    def usage(self) -> Usage:
        """What it used up."""
        told = self.telemetry
        peaks = {"ram": told.ram, "gpu_memory": told.gpu_memory}
        return Usage.at(self.rate, self.took, joules=told.joules, **peaks)


class Attempts:
    """Begins and ends attempts. Whatever ends one does it here, in this order: folder, ledger,
    public path."""

    def __init__(
        self,
        ledger: Ledger,
        layout: Layout,
        keeper: LeaseKeeper,
        *,
        provenance: Callable[[], Mapping[str, Any]],
        random: Callable[[], float],
        folder: Callable[[Path], AttemptFolder] = AttemptFolder,
        publish: Publish = publish,
    ) -> None:
        self._ledger, self._layout, self._keeper = ledger, layout, keeper
        self._folder, self._publish = folder, publish
        self._provenance, self._random = provenance, random

    def begin(
        self,
        claim: Claim,
        *,
        spec: SlotSpec,
        host: str,
        device: str,
        now: float,
        provenance: Mapping[str, Any],
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Attempt:
        """Hold the lease and make the folder; the next attempt goes on after earlier samples."""
        self._keeper.hold(claim.lease)
        folder = self._folder(self._layout.attempt(claim.lease))
        recorded = b""
        if not folder.first and (recorded := earlier_samples(folder.folder.parent)):
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
            watch=Watch(claim.cell.limits, began=now),
            done=(known := count_samples(recorded)),
            before=known,
        )

    def succeed(self, attempt: Attempt, done: Done) -> Outcome:
        """Seal, finish, publish. Raises `ClaimLost`: then nothing of it is published.

        A score that is none, or a disk that takes no more, makes it a failure of stage
        ``collect``; a public path that is occupied raises ResultsError after the finish.
        """
        claim, usage = attempt.claim, attempt.usage
        provenance = {
            **self._provenance(),
            **attempt.provenance,
            "model": done.provenance,
            "host": attempt.host,
            "device": attempt.device,
            "rescored": attempt.rescored,
            "seed": claim.cell.data_seed,
            "attempt": claim.lease.attempt,
            **({} if attempt.rescored else {"effective_batch_size": claim.batch_size}),
            "resumed_samples": count_samples(attempt.recorded),
        }
        verdict = Verdict(
            score=done.score,
            seconds=done.seconds,
            provenance=provenance,
            telemetry=attempt.telemetry.summary(),
            usage=usage.to_dict(),
        )
        try:
            sealed = attempt.folder.seal(claim.cell, claim.path, verdict)
        except (ValueError, KeyError, TypeError) as error:
            failure = Failure(stage="collect", kind="bad_result", message=str(error))
            return self.fail(attempt, failure, done.seconds)
        except OSError as error:
            return self.fail(attempt, unwritable(error), done.seconds)
        outcome = Outcome(
            state="success",
            digest=sealed.digest,
            metrics=sealed.metrics,
            reported=sealed.reported,
            seconds=done.seconds,
            host=attempt.host,
            device=attempt.device,
            usage=usage,
            device_type=attempt.spec.devices[0].type if attempt.spec.devices else "",
            resumed=attempt.before,
        )
        try:
            self._ledger.finish(claim.lease, outcome)
        finally:
            self._keeper.drop(claim.lease)
        self._publish(attempt.folder.folder, self._layout.published(claim.path))
        return outcome

    def fail(self, attempt: Attempt, failure: Failure, seconds: Mapping[str, float]) -> Outcome:
        """Keep the reason with the last log lines, and finish or ask for another try, which does
        something differently where memory ran out.

        Samples kept make the final state ``partial``. Raises `ClaimLost`.
        """
        after, given = attempt.claim.after, attempt.claim.advice
        failure = replace(failure, log_tail=log_tail(attempt.folder.log))
        with contextlib.suppress(OSError):  # a full disk; the ledger keeps the reason too
            attempt.folder.fail(failure, attempt.telemetry.summary())
        failures = after.failures if after else {}
        advice = next_advice(failure, given, attempt.had)
        uses_try = advice is None and charged(failure, before=failures.get(failure.kind, 0))
        tries = attempt.claim.tries + uses_try
        outcome = Outcome(
            state="partial" if attempt.done else "failed",
            failure=failure,
            metrics={"samples": attempt.done},
            seconds=seconds,
            host=attempt.host,
            device=attempt.device,
            device_type=attempt.spec.devices[0].type if attempt.spec.devices else "",
            charged=uses_try,
            retry_in=retry_in(
                failure,
                charged=uses_try,
                tries=tries,
                allowed=attempt.claim.cell.limits.tries,
                random=self._random,
            ),
            advice=advice or given,
            first=first_reason(after, failure),
            failures=Counter(failures) + Counter({failure.kind: 1}),
            usage=attempt.usage,
        )
        try:
            self._ledger.finish(attempt.claim.lease, outcome)
        finally:
            self._keeper.drop(attempt.claim.lease)
        return outcome

    def give_back(self, attempt: Attempt, reason: str) -> None:
        """Release the cell; its samples stay for whoever claims it next."""
        self.abandon(attempt)
        self._ledger.release([attempt.claim.lease], reason)

    def abandon(self, attempt: Attempt) -> None:
        """The claim was lost: publish nothing, and leave what was written, where it may still serve
        somebody."""
        attempt.folder.close()
        self._keeper.drop(attempt.claim.lease)
        if self._layout.published(attempt.claim.path).is_dir():  # another was quicker
            attempt.folder.discard()
        self._account(attempt)

    def _account(self, attempt: Attempt) -> None:
        """Keep what an attempt without an outcome used up, which is to be paid for all the same."""
        lease = attempt.claim.lease
        data = {"attempt": lease.attempt, "token": lease.token, "usage": attempt.usage.to_dict()}
        with contextlib.suppress(LedgerError):  # what ends it matters more
            self._ledger.record(Event(kind="used", fingerprint=lease.fingerprint, data=data))


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
