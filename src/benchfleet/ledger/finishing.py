"""What several threads have ended, told to a server together by the one that comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.errors import ClaimLost

_MOST = 100  # attempts that are told of at once
Ended = Sequence[tuple[Lease, Outcome]]


@dataclass
class _Ending:
    lease: Lease
    outcome: Outcome
    told: bool = False
    error: Exception | None = None


class Together:
    """Gathers what ends while the server is being told of what ended before, so that many slots
    wait for few answers. `tell` says of each whether it was refused, and why."""

    def __init__(self, tell: Callable[[Ended], Sequence[ClaimLost | None]]) -> None:
        self._tell = tell
        self._waiting: list[_Ending] = []
        self._gathering = threading.Lock()
        self._telling = threading.Lock()

    def finish(self, lease: Lease, outcome: Outcome) -> None:
        """Tell of one attempt, and return once that is done. Raises what `tell` says or raises."""
        mine = _Ending(lease, outcome)
        with self._gathering:
            self._waiting.append(mine)
        with self._telling:
            while not mine.told:
                with self._gathering:
                    some, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                self._tell_of(some)
        if mine.error is not None:
            raise mine.error

    def _tell_of(self, some: Sequence[_Ending]) -> None:
        try:
            refused = self._tell([(ending.lease, ending.outcome) for ending in some])
            for ending, error in zip(some, refused, strict=True):
                ending.error = error
        except Exception as error:  # noqa: BLE001 - each of them raises it
            for ending in some:
                ending.error = error
        finally:
            for ending in some:
                ending.told = True
