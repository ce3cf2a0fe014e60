"""Room on the disk of the results: below a floor nothing is begun, until there is room again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchfleet.domain.humanize import sized

FLOOR, FLOOR_SHARE = 10**9, 0.02  # bytes, or part of the disk where that is less
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0  # seconds after a write was refused; doubled each time


@dataclass(frozen=True, kw_only=True)
class DiskSpace:
    """Bytes of a disk."""

    free: int  # for this user
    total: int


UNLIMITED = DiskSpace(free=2**62, total=2**62)  # where nobody looks


def disk_space(folder: Path) -> DiskSpace:
    """The room on the disk that a folder is or will be on. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    return DiskSpace(free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize)


class DiskGuard:
    """Whether there is room to begin something; `look` is called again and again.

    A quota refuses writes though the disk has room, so that after a write was refused it is
    waited for a while, and for longer each time.
    """

    def __init__(self, ask: Callable[[], DiskSpace], *, floor: int | None) -> None:
        self._ask, self._floor = ask, floor
        self._short = False
        self._until, self._pause = 0.0, FIRST_PAUSE

    @property
    def short(self) -> bool:
        """Whether nothing is to be begun now."""
        return self._short

    def refused(self, now: float, *, of: str = "results") -> str:
        """A write to the disk `of` these was refused for want of room; what to say of it, ``""``
        where it was said."""
        said = self._short
        if now >= self._until:
            self._until = now + self._pause
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self._short = True
        return "" if said else f"the disk of the {of} is full; nothing is begun until it has room"

    def look(self, now: float) -> str:
        """Look at the disk; what to say where that changed something."""
        try:
            seen = self._ask()
        except OSError:  # it was unmounted, say: whatever is written there tells what is wrong
            return ""
        floor = self.floor(seen)
        if seen.free < floor:
            if self._short:
                return ""
            self._short = True
            return (
                f"the disk of the results has {sized(seen.free)} left, less than {sized(floor)}; "
                "what runs goes on, and nothing is begun until it has more (limits.disk)"
            )
        if not self._short or now < self._until:
            return ""
        self._short = False
        return f"the disk of the results has {sized(seen.free)} left; going on"

    def floor(self, seen: DiskSpace) -> int:
        """Bytes that are to be left free."""
        return min(FLOOR, int(FLOOR_SHARE * seen.total)) if self._floor is None else self._floor

    def wrote(self) -> None:
        """A result was written: there is no quota in the way."""
        self._pause = FIRST_PAUSE
