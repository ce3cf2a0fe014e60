"""How long a runner stays, how it rests, and where its cells come from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from benchfleet.domain.cell import Cell

LOOK_EVERY_S = 1.0  # seconds between looks at what became claimable without an arrival
MAX_PAUSE_S = 15.0  # seconds between two looks at most, where nothing is left and the runner stays
KEEP_MODELS_S = 60.0  # seconds for which models are kept while there is nothing to do
STOP_GRACE_S = 20.0  # seconds that cells have to stop; Slurm kills 30 s after its signal
END_RESERVE_S = 60.0  # seconds before the end of a batch job, to stop cells and send results
SIGNAL_SPREAD_S = 1.0  # seconds in which a signal to all processes of a job reaches each of them


def _no_more() -> Sequence[Cell]:
    return ()


def _nothing() -> Collection[str]:
    return ()


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """What a runner is asked beside its cells. By default they are those of a campaign's file, and
    it ends with them."""

    enrolls: bool = True  # True: the cells are declared here; False: they come from the ledger
    more: Callable[[], Sequence[Cell]] = _no_more  # all it is about, after somebody enrolled others
    yielded: Callable[[], Collection[str]] = _nothing  # those it was about, and others are now
    patient: bool = False  # waits for gates that are undecided, also where nobody works at them
    stays: bool = False  # also where nothing is left
    seconds: float | None = None  # after which it ends, and nothing is begun that would take longer
    idle_exit: float | None = None  # seconds without a running cell, after which it ends
    release_command: str = "benchfleet release …"  # gives back what a dead runner holds
    batch_job: bool = False  # a batch system signals all its processes, and kills them soon after

    @property
    def follows(self) -> bool:
        """Whether what it is about may change while it works."""
        return self.more is not _no_more


class IdleBackoff:
    """How seldom a runner that stays looks at its ledger, while it has nothing to do."""

    def __init__(self, *, stays: bool, least: float) -> None:
        self._stays, self._least = stays, least
        self._since: float | None = None  # when it had nothing to do any more
        self.pause = least  # seconds between two looks

    def see(self, now: float, *, idle: bool) -> bool:
        """Whether it has rested for so long that it should let go of its models."""
        if not self._stays or not idle:
            self.pause, self._since = self._least, None
            return False
        self.pause = min(1.5 * self.pause, MAX_PAUSE_S)
        self._since = now if self._since is None else self._since
        return now - self._since > KEEP_MODELS_S
