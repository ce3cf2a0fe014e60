"""Scoring again what was answered: in a slot without a model, and published like any attempt."""

from __future__ import annotations

import contextlib
import math
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.event import Event
from benchfleet.domain.failure import Failure, Kind
from benchfleet.domain.resource import Device
from benchfleet.domain.state import FINAL_STATES
from benchfleet.engines.base import (
    AttemptEvent,
    AttemptRequest,
    Done,
    Failed,
    FileSent,
    Recorded,
    SlotEvent,
    SlotId,
    SlotLost,
    SlotReady,
    SlotSpec,
    Stopped,
)
from benchfleet.errors import ClaimLost, ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import read_plain
from benchfleet.results.read import log_tail
from benchfleet.results.reuse import ReusableAnswers
from benchfleet.results.samples import count_samples, earlier_samples, read_samples
from benchfleet.results.summary import summarise
from benchfleet.results.write import AttemptFolder
from benchfleet.runner.attempt.attempt import Attempt
from benchfleet.runner.attempt.timeouts import AttemptTimeouts
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.execution.attempt_recorder import AttemptRecorder
from benchfleet.runner.recovery.adopt import claims_of

_CPU = Device(kind="cpu", index=0)
_POLL_S = 0.5  # a wait is this short so that Ctrl-C is noticed


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """What came of one cell."""

    record: CellRecord
    score: float | None = None  # the headline now; None where it could not be scored
    published: float | None = None  # the headline that stands, where one was published before
    changed: int = 0  # samples whose score is not the published one
    failure: Failure | None = None

    @property
    def differs(self) -> bool:
        """Whether it is not what was published, which stays as it is."""
        if self.score is None or self.published is None:
            return False
        return bool(self.changed) or not math.isclose(self.score, self.published)


class Rescorer:
    """Scores cells one after another, each in a slot on the CPU with its model's interpreter.

    Nothing is claimed before the score is there: a cell that cannot be scored stays as it is, with
    its first reason, and a folder with the new one beside its attempts.
    """

    def __init__(
        self,
        context: RunnerContext,
        *,
        threads: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._runner, self._ledger, self._engine = context.runner, context.ledger, context.engine
        self._inbox = context.inbox
        self._layout = context.layout
        self._heartbeat = context.heartbeat
        self._attempts, self._threads, self._pause = AttemptRecorder(context), threads, pause
        self._slot: SlotSpec | None = None

    def rescore(self, records: Iterable[CellRecord]) -> Iterator[Rescored]:
        """Score each again. Published results are compared with what they say, and stay. What
        goes wrong with one is its failure, and the others go on."""
        self._heartbeat.start()
        try:
            for record in records:
                try:
                    rescored = self._rescored(record)
                except (ClaimLost, ResultsError, OSError) as error:
                    self._close(fit=False)  # it may still be at it
                    rescored = _failed(record, str(error))
                yield rescored
        finally:
            self._heartbeat.stop()

    def _rescored(self, record: CellRecord) -> Rescored:
        done = record.state == "success"
        attempts = self._layout.attempts_of(record.fingerprint)
        folder = AttemptFolder(attempts / f"{names.RESCORED}{uuid.uuid4().hex[:8]}")
        try:
            return self._compared(record, folder) if done else self._scored(record, folder)
        finally:
            folder.close()
            if done:
                shutil.rmtree(folder.folder, ignore_errors=True)
                with contextlib.suppress(OSError):  # other attempts left their evidence there
                    attempts.rmdir()

    def _compared(self, record: CellRecord, folder: AttemptFolder) -> Rescored:
        public = self._layout.published(record.path)
        ended = self._run(record, folder, read_plain(public / names.SAMPLES))
        if isinstance(ended, Failure):
            return Rescored(record=record, failure=ended)
        return Rescored(
            record=record,
            score=ended.score["overall"],
            published=record.outcome.metrics.get("overall_score") if record.outcome else None,
            changed=_changed(public, folder, ended.score["per_sample"]),
        )

    def _scored(self, record: CellRecord, folder: AttemptFolder) -> Rescored:
        recorded = earlier_samples(folder.folder.parent)
        if not recorded and record.cell:
            recorded = ReusableAnswers(self._layout).of(record.cell)
        ended = self._run(record, folder, recorded)
        if isinstance(ended, Done):
            ended = _unusable(ended, folder) or ended
        if isinstance(ended, Failure):
            folder.fail(ended)
            return Rescored(record=record, failure=ended)
        if not self._is_as_listed(record):
            return _failed(record, "another took it meanwhile", kind="interrupted")
        if record.state in FINAL_STATES:
            self._ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
        for (claim,) in claims_of(self._ledger, self._runner, [record.fingerprint], self._pause):
            attempt = Attempt(
                claim=claim,
                folder=folder,
                spec=self._spec(claim.cell.model.python),
                recorded=recorded,
                host=socket.gethostname(),
                device=_CPU.label,
                began=self._inbox.now(),
                provenance={},
                timeouts=AttemptTimeouts(claim.cell.limits, began=self._inbox.now()),
                done=count_samples(recorded),
                rescored=True,
            )
            self._heartbeat.hold(claim.lease)
            outcome = self._attempts.succeed(attempt, ended)
            score = outcome.metrics.get("overall_score")
            return Rescored(record=record, score=score, failure=outcome.failure)
        return _failed(record, "another runner took it", kind="interrupted")

    def _is_as_listed(self, record: CellRecord) -> bool:
        """Whether nobody did anything with the cell while it was scored."""
        now = next(iter(self._ledger.cells(fingerprints=[record.fingerprint])), None)
        if now is None or now.state not in (*FINAL_STATES, "pending"):
            return False
        return (now.state, now.token) == (record.state, record.token)

    def _run(self, record: CellRecord, folder: AttemptFolder, recorded: bytes) -> Done | Failure:
        """Score one cell in a slot; how it went."""
        if record.cell is None:
            raise ValueError("a record without its cell cannot be scored")
        folder.record(recorded)
        slot = self._open(record.cell.model.python)
        if isinstance(slot, Failure):
            return slot
        name = f"{record.fingerprint}/{folder.folder.name}"
        log = str(folder.log)
        request = AttemptRequest(
            attempt=name, cell=record.cell, log=log, recorded=recorded, rescore=True
        )
        timeouts = AttemptTimeouts(record.cell.limits, began=self._inbox.now())
        self._engine.run(slot.slot, request)
        while True:
            event = self._next()
            if isinstance(event, AttemptEvent):
                timeouts.record(event, self._inbox.now())
            if isinstance(event, Recorded):
                folder.record(event.lines)
            elif isinstance(event, FileSent):
                folder.append(event.name, event.data)
            elif isinstance(event, Done):
                return event
            elif isinstance(event, Failed):
                self._close(fit=event.fit)
                return replace(event.failure, log_tail=log_tail(folder.log))
            elif isinstance(event, (Stopped, SlotLost)):
                self._close(fit=False)
                why = f"its slot ended: {event.reason}"
                tail = log_tail(folder.log)
                return Failure(stage="collect", kind="slot_lost", message=why, log_tail=tail)
            elif late := timeouts.expired(self._inbox.now()):
                self._close(fit=False)
                tail = log_tail(folder.log)
                return Failure(stage="collect", kind=late.kind, message=late.message, log_tail=tail)

    def _open(self, python: str) -> SlotSpec | Failure:
        """The slot with this interpreter, or why there is none."""
        if self._slot is not None and self._slot.python == python:
            return self._slot
        self._close(fit=False)
        slot = self._slot = self._spec(python)
        self._engine.open(slot)
        while True:
            event = self._next()
            if isinstance(event, SlotReady):
                return slot
            if isinstance(event, SlotLost):
                self._slot = None
                why = f"no slot could be started: {event.reason}; see {slot.log}"
                return Failure(stage="setup", kind="slot_lost", message=why)

    def _spec(self, python: str) -> SlotSpec:
        name = SlotId(f"rescore-{uuid.uuid4().hex[:8]}")
        log = str(self._layout.slot_log(name))
        return SlotSpec(slot=name, devices=(_CPU,), threads=self._threads, log=log, python=python)

    def _close(self, *, fit: bool) -> None:
        if self._slot is not None and not fit:
            self._engine.kill(self._slot.slot)
            self._slot = None

    def _next(self) -> SlotEvent | None:
        """The next event of the slot that is open; None where nothing came for a while."""
        event = self._inbox.take(_POLL_S)
        if isinstance(event, SlotEvent) and self._slot and event.slot == self._slot.slot:
            return event
        return None


def _changed(public: Path, folder: AttemptFolder, scores: Sequence[float | None]) -> int:
    """How many answers have another score than the published one, or have one in one place only.
    The scores are those of the attempt's samples by ascending index, or none at all."""
    published = read_samples(public / names.SAMPLES).items()
    before = {index: one["score"] for index, one in published if "score" in one}
    indices = sorted(read_samples(folder.folder / names.SAMPLES))
    now = {n: one for n, one in zip(indices, scores, strict=False) if one is not None}
    both = before.keys() & now.keys()
    return len(before.keys() ^ now.keys()) + sum(
        not math.isclose(before[index], now[index]) for index in both
    )


def _unusable(done: Done, folder: AttemptFolder) -> Failure | None:
    """Why its score is none, as sealing would find too late."""
    samples = list(read_samples(folder.folder / names.SAMPLES).values())
    try:
        scored = len(done.score["per_sample"])
        if scored and scored != len(samples):
            raise ValueError(f"{scored} samples were scored, and {len(samples)} are kept")
        summarise(done.score, samples)
    except (ValueError, KeyError, TypeError) as error:
        return Failure(stage="collect", kind="bad_result", message=str(error))
    return None


def _failed(record: CellRecord, message: str, *, kind: Kind = "error") -> Rescored:
    return Rescored(record=record, failure=Failure(stage="collect", kind=kind, message=message))
