"""How many pilots a campaign needs, and a back-off where pilots achieve nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchfleet.slurm.commands import Pilot

FIRST_PAUSE_S = 60.0  # seconds before more pilots follow some that finished no cell
MAX_PAUSE_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """The cells of a campaign that are not done."""

    waiting: int  # cells that a pilot could claim
    running: int
    ended: int  # cells in a final state
    failed: int = 0  # those of them that are partial or failed
    too_long: tuple[str, ...] = ()  # paths of cells that take longer than a pilot may run
    needed_s: float = 0.0  # seconds that a pilot needs for the longest of them
    blocked: int = 0  # cells of phases whose gates are not open

    @property
    def remaining(self) -> int:
        """Cells that pilots can still do something about."""
        return self.waiting + self.running + self.blocked


def missing_pilots(work: Work, pilots: Iterable[Pilot], *, workers: int, max_queued: int) -> int:
    """How many pilots to submit: up to `workers` in all, never more than there are cells for them,
    at most `max_queued` that wait in Slurm's queue, and none where no cell waits."""
    if not work.waiting:
        return 0
    current = list(pilots)
    queued = sum(pilot.queued for pilot in current)
    target = min(workers, work.waiting + work.running)
    return max(0, min(target - len(current), max_queued - queued))


@dataclass(frozen=True, kw_only=True)
class SubmitBackoff:
    """Makes each submission wait longer if the pilots before it achieved nothing: they ended no
    cell and recorded no new sample, as where the prelude fails. Times are seconds since 1970."""

    event: int = -1  # the ledger's newest event at the last submission; -1 before the first
    samples: int = 0  # recorded then, of cells that had not ended
    pause: float = 0.0
    not_before: float = 0.0

    def after(self, progress: bool, pilots: Sequence[Pilot], now: float) -> SubmitBackoff:
        """The same once it is known whether there was `progress` since the last submission."""
        if progress:
            return replace(self, pause=0.0, not_before=0.0)
        if pilots or self.event < 0 or self.not_before:
            return self
        pause = min(MAX_PAUSE_S, 2 * self.pause or FIRST_PAUSE_S)
        return replace(self, pause=pause, not_before=now + pause)

    def submitted(self, event: int, samples: int) -> SubmitBackoff:
        """The same after a submission."""
        return replace(self, event=event, samples=samples, not_before=0.0)

    def save(self, file: Path) -> None:
        """Keep it for the next call."""
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> SubmitBackoff:
        """As it was saved; a new one where that cannot be read."""
        try:
            values = json.loads(file.read_text())
            event, pause, not_before = values["event"], values["pause"], values["not_before"]
            return cls(
                event=int(event),
                samples=int(values["samples"]),
                pause=float(pause),
                not_before=float(not_before),
            )
        except (OSError, ValueError, LookupError, TypeError):
            return cls()
