"""The publisher: it writes the results of attempts that ended, beside the loop."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import Done
from benchfleet.runner.attempt.attempt import Attempt, EndedAttempt
from benchfleet.runner.events import AttemptWritten, EventQueue
from benchfleet.runner.execution.attempt_recorder import AttemptRecorder
from benchfleet.runner.result_storage import Background

MAX_GROUP = 32  # attempts: each has up to six open files while its group is sealed


class Publisher:
    """Seals, finishes and publishes attempts (group commit).

    Each thread of `background` takes all that waits as one group. Attempts that end while groups
    are written are the next group: ledger and folders are synced once for all of them.
    """

    def __init__(
        self, recorder: AttemptRecorder, *, inbox: EventQueue, background: Background
    ) -> None:
        self._recorder, self._inbox, self._background = recorder, inbox, background
        self._ended: deque[EndedAttempt] = deque()  # to be written
        self.under_way = 0  # attempts that ended and are not written yet

    def submit(self, attempt: Attempt, how: Done | Failure, seconds: Mapping[str, float]) -> None:
        """Have an attempt written while its slot goes on; `AttemptWritten` is posted then."""
        self.under_way += 1
        self._ended.append(EndedAttempt(attempt=attempt, how=how, seconds=seconds))
        self._background(self._write_group)

    def _write_group(self) -> None:
        """Write what waits; earlier calls may have taken all of it along."""
        group: list[EndedAttempt] = []
        with contextlib.suppress(IndexError):  # another thread took the rest
            while len(group) < MAX_GROUP:
                group.append(self._ended.popleft())
        if not group:
            return
        results: Sequence[Outcome | Exception]
        try:
            results = self._recorder.write(group)
        except Exception as error:  # noqa: BLE001 - the loop judges it, in its own thread
            results = [error] * len(group)
        for ended, result in zip(group, results, strict=True):
            self._inbox.post(AttemptWritten(attempt=ended.attempt, outcome=result))
