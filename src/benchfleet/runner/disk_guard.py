"""The free space on the disk of the results: below a floor no cell begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.humanize import sized

FLOOR_BYTES, FLOOR_SHARE = 10**9, 0.02  # bytes, or part of the disk where that is less
FIRST_PAUSE_S, MAX_PAUSE_S = 10.0, 600.0  # seconds after a write was refused; doubled each time


@dataclass(frozen=True, kw_only=True)
class DiskSpace:
    """Bytes of a disk."""

    free: int  # for this user
    total: int


UNLIMITED = DiskSpace(free=2**62, total=2**62)  # where nothing checks


def disk_space(folder: Path) -> DiskSpace:
    """The space of the disk that a folder is or will be on. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    stats = os.statvfs(folder)
    return DiskSpace(free=stats.f_bavail * stats.f_frsize, total=stats.f_blocks * stats.f_frsize)


class DiskGuard:
    """Decides whether the disk has room for another cell; `check` is called regularly.

    A quota refuses writes although the disk has room. After a refused write the guard therefore
    pauses, and longer each time.
    """

    def __init__(self, ask: Callable[[], DiskSpace], *, floor: int | None) -> None:
        self._ask, self._floor = ask, floor
        self._short = False
        self._until, self._pause = 0.0, FIRST_PAUSE_S

    @property
    def short(self) -> bool:
        """Whether no cell may begin now."""
        return self._short

    def refused(self, now: float, *, of: str = "results") -> str:
        """Record a write that the disk `of` these refused; the message, ``""`` after the first."""
        already_reported = self._short
        if now >= self._until:
            self._until = now + self._pause
            self._pause = min(MAX_PAUSE_S, 2 * self._pause)
        self._short = True
        return (
            ""
            if already_reported
            else f"the disk of the {of} is full; no cell begins until it has room"
        )

    def check(self, now: float) -> str:
        """Check the disk; the message where something changed."""
        try:
            space = self._ask()
        except OSError:  # unmounted: the next write reports it
            return ""
        floor = self.floor(space)
        if space.free < floor:
            if self._short:
                return ""
            self._short = True
            return (
                f"the disk of the results has {sized(space.free)} left, less than {sized(floor)}; "
                "running cells continue, and none begins until it has more (limits.disk)"
            )
        if not self._short or now < self._until:
            return ""
        self._short = False
        return f"the disk of the results has {sized(space.free)} left; cells begin again"

    def floor(self, space: DiskSpace) -> int:
        """Bytes that must stay free."""
        return (
            min(FLOOR_BYTES, int(FLOOR_SHARE * space.total)) if self._floor is None else self._floor
        )

    def wrote(self) -> None:
        """Reset the pause: the disk took a result."""
        self._pause = FIRST_PAUSE_S
