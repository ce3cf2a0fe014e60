"""Detects memory that leaks from cell to cell on a model that stays loaded."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchfleet.domain.telemetry import Reading
from benchfleet.slot.memory import DEVICE, OWN, held_bytes, trim

MIN_GROWTH_BYTES = 2**20
# So many of the last cells must grow: caches that fill up do so once or twice.
GROWING_CELLS, WATCHED_CELLS = 5, 8
WARN_BYTES = 256 * 2**20  # of growth since the first cell
REPLACE_BYTES = 2 * 2**30  # of growth since the first cell: the slot is replaced


@dataclass
class _Track:
    """One count of memory, after each cell."""

    first: int
    most: int
    grew: deque[bool] = field(default_factory=lambda: deque(maxlen=WATCHED_CELLS))
    cells: int = 1
    warned: int = 0  # bytes of growth in the last warning

    def add(self, now: int) -> bool:
        """Whether it grows again and again."""
        self.cells += 1
        self.grew.append(now > self.most + MIN_GROWTH_BYTES)
        self.most = max(self.most, now)
        return sum(self.grew) >= GROWING_CELLS and now - self.first > WARN_BYTES


class Leaks:
    """Compares the memory held after each cell with that after the first one."""

    def __init__(self, tidy: Callable[[], None] | None = None) -> None:
        self._tidy = tidy or _tidy
        self._tracks: dict[str, _Track] = {}
        self._loaded = ""
        self.grown = 0  # bytes leaked

    @property
    def too_much(self) -> bool:
        """Whether the slot is to be replaced."""
        return self.grown > REPLACE_BYTES

    def after(self, loaded: str, reading: Reading, again: Callable[[], Reading]) -> list[str]:
        """The warnings after a cell. `loaded` is the load key of the model; what looks like a leak
        is measured `again` after all that can be freed was."""
        if loaded != self._loaded:
            self._tracks, self._loaded, self.grown = {}, loaded, 0
        suspects = [name for name, size in _held_bytes(reading).items() if self._add(name, size)]
        if not suspects:
            return []
        self._tidy()
        now = _held_bytes(again())
        return [warning for name in suspects if (warning := self._judge(name, now.get(name, 0)))]

    def _add(self, name: str, size: int) -> bool:
        if name not in self._tracks:
            self._tracks[name] = _Track(first=size, most=size)
            return False
        return self._tracks[name].add(size)

    def _judge(self, name: str, now: int) -> str:
        track = self._tracks[name]
        grown = now - track.first
        if grown <= WARN_BYTES:  # it could be freed
            self._tracks[name] = _Track(first=track.first, most=now)
            return ""
        self.grown = max(self.grown, grown)
        if grown < 2 * track.warned:
            return ""
        track.warned = grown
        return (
            f"{name} grows from cell to cell: {grown / 2**30:.1f} GiB more after {track.cells} "
            f"cells on one loaded model; past {REPLACE_BYTES / 2**30:g} GiB the slot is replaced"
        )


def _held_bytes(reading: Reading) -> Mapping[str, int]:
    """The slot's own GPU memory, or else that of the whole device."""
    counts = held_bytes(reading)
    if OWN in counts:
        counts.pop(DEVICE, None)
    return counts


def _tidy() -> None:
    """Free what can be freed, the caches of an allocator too."""
    gc.collect()
    trim()
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.empty_cache()
