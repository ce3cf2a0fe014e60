"""Writes the results of attempts that ended, beside the loop."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.failure import Failure
from benchfleet.engines.base import Done
from benchfleet.runner.disk import Background
from benchfleet.runner.ending.attempts import Attempts
from benchfleet.runner.events import Concluded, EventQueue
from benchfleet.runner.trying.attempt import Attempt, Ended


class Writing:
    """Writes attempts in groups: those that end while one group is written are the next one."""

    def __init__(self, attempts: Attempts, *, inbox: EventQueue, background: Background) -> None:
        self._attempts, self._inbox, self._background = attempts, inbox, background
        self._ended: deque[Ended] = deque()  # to be written
        self.under_way = 0  # attempts that are being written

    def end(self, attempt: Attempt, how: Done | Failure, seconds: Mapping[str, float]) -> None:
        """Have the attempt written and finished while its slot computes on."""
        self.under_way += 1
        self._ended.append(Ended(attempt=attempt, how=how, seconds=seconds))
        self._background(self._write)

    def _write(self) -> None:
        """Write what has ended, in a thread of `background`, and post how that went."""
        group: list[Ended] = []
        with contextlib.suppress(IndexError):  # all of it was taken
            while len(group) < self._attempts.together and not (group and group[-1].is_large):
                group.append(self._ended.popleft())
        if not group:
            return  # who wrote others took it along
        results: Sequence[Outcome | Exception]
        try:
            results = self._attempts.end(group)
        except Exception as error:  # noqa: BLE001 - the loop judges it, in its own thread
            results = [error] * len(group)
        for ended, result in zip(group, results, strict=True):
            self._inbox.post(Concluded(attempt=ended.attempt, outcome=result))
