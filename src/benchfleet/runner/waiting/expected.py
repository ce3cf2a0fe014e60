"""How long cells should take, learned from those that ended well: pure, and told as it goes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import sqrt
from typing import Literal, NamedTuple

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.cell import Cell

Ended = tuple[Cell, Outcome]
Key = tuple[str, ...]
Likeness = Literal["same config and subset", "same config", "same benchmark", "another model"]

_MOVED = 0.15  # of an estimate: a smaller change is not worth ranking cells anew
_REMEMBERED = 999  # times that one estimate is made of
_ALONE = 0.5  # the spread of an estimate that one cell alone stands for, as a part of it
_COMPARED = 1000  # kinds of cells at most, by which two types of device are compared


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How long a cell should take once its model is loaded, and by what that is known."""

    seconds: float
    spread: float  # seconds: one standard deviation of a single cell
    like: Likeness  # what those cells have in common with it
    cells: int  # how many of them
    source: Key = ()  # equal for cells that are known by the same others
    there: bool = False  # they ran on the type of device that was asked for


class Pace(NamedTuple):
    """How many times as long cells take on one type of device as on another."""

    factor: float = 1.0
    spread: float = 0.0  # of the factor, as a part of it: one standard deviation


class _Times:
    """The times of cells that are alike."""

    def __init__(self) -> None:
        self._order: deque[float] = deque()
        self._sorted: list[float] = []
        self.told = 0.0  # the middle when it was last said that it moved

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, seconds: float) -> bool:
        """One more; whether the middle moved much."""
        if len(self._order) == _REMEMBERED:
            del self._sorted[bisect_left(self._sorted, self._order.popleft())]
        self._order.append(seconds)
        insort(self._sorted, seconds)
        moved = abs(self.middle - self.told) > _MOVED * self.told or len(self) == 1
        if moved:
            self.told = self.middle
        return moved

    @property
    def middle(self) -> float:
        """The median."""
        half = len(self._sorted) // 2
        upper = self._sorted[half]
        return upper if len(self._sorted) % 2 else (self._sorted[half - 1] + upper) / 2

    @property
    def spread(self) -> float:
        """About one standard deviation, by the distance of the outer sixths."""
        count = len(self._sorted)
        if count < 2:
            return _ALONE * self.middle
        low, high = self._sorted[count // 6], self._sorted[count - 1 - count // 6]
        return (high - low) / 2 * (1 if count > 5 else sqrt(count / (count - 1)))

    @property
    def doubt(self) -> float:
        """What the middle may be wrong by, as a part of it."""
        return self.spread / self.middle / sqrt(len(self))


class History:
    """Times by cell: of the same model, config, benchmark and subset where there are any; else of
    other subsets, configs and models, in this order. Of each, those on the same type of device tell
    before those on any. Another limit of samples changes a time in proportion."""

    def __init__(self, ended: Iterable[Ended] = ()) -> None:
        self._times: dict[Key, dict[int | None, _Times]] = {}  # by the limit of samples
        self._loads: dict[Key, _Times] = {}
        self._keys: dict[tuple[int, int, int], tuple[object, tuple[Key, ...]]] = {}
        self._all = _Times()
        self._ran_on: dict[str, list[dict[Key, None]]] = {}  # what did, by its nearness
        for cell, outcome in ended:
            self.learn(cell, outcome)

    def learn(self, cell: Cell, outcome: Outcome) -> list[Key]:
        """Take in how a cell ended; the keys by which others are now known otherwise."""
        if outcome.state != "success":
            return []
        if load := outcome.seconds.get("load"):
            name = cell.model.name
            self._loads.setdefault((name,), _Times()).add(load)
            self._loads.setdefault((name, outcome.device_type), _Times()).add(load)
        seconds = outcome.seconds.get("benchmark")
        if seconds is None or outcome.resumed:
            return []
        self._all.add(seconds)
        moved: list[Key] = []
        ran = self._ran_on.setdefault(outcome.device_type, [{}, {}, {}, {}])
        for place, alike in enumerate(self.keys(cell)):
            ran[place][alike] = None
            for key in ((*alike, outcome.device_type), alike):
                times = self._times.setdefault(key, {}).setdefault(cell.workload.limit, _Times())
                if times.add(seconds):
                    moved.append(key)
        return moved

    def of(self, cell: Cell, device_type: str = "") -> Expected | None:
        """What is known of its like; None where that is nothing."""
        for like, key, there in self._chain(cell, device_type):
            if (by_limit := self._times.get(key)) is None:
                continue
            limit = cell.workload.limit
            if times := by_limit.get(limit):
                return _expected(times, like, key, there)
            for other, times in by_limit.items():
                if other and limit:  # a trial tells of more samples in proportion
                    found = _expected(times, like, key, there)
                    return replace(
                        found,
                        seconds=found.seconds * limit / other,
                        spread=found.spread * limit / other,
                        like="same config" if like == "same config and subset" else like,
                    )
        return None

    @property
    def mean(self) -> float | None:
        """A time for a cell of which nothing is known; None before the first."""
        return self._all.middle if len(self._all) else None

    def pace(self, device_type: str, than: str) -> Pace | None:
        """How many times as long cells take on such devices as on those, or on any where `than` is
        empty: by what ran on both, the nearest that is known; None where nothing did."""
        for alike in self._ran_on.get(device_type, ()):
            ratios, wrong = _Times(), 0.0
            for key in islice(alike, _COMPARED):
                there = self._times.get((*key, than) if than else key, {})
                for limit, times in self._times.get((*key, device_type), {}).items():
                    other = there.get(limit)
                    if other is None or (not than and len(other) == len(times)):
                        continue  # it ran on these alone
                    if times.middle > 0 and other.middle > 0:
                        ratios.add(times.middle / other.middle)
                        wrong += times.doubt**2 + other.doubt**2
            if count := len(ratios):
                apart = ratios.spread / ratios.middle if count > 1 else 0.0
                return Pace(ratios.middle, sqrt((wrong / count + apart**2) / count))
        return None

    def load(self, model: str, device_type: str = "") -> float:
        """Seconds that the model takes to load; 0 where nobody knows."""
        times = self._loads.get((model, device_type)) or self._loads.get((model,))
        return times.middle if times else 0.0

    def keys(self, cell: Cell) -> tuple[Key, ...]:
        """What the cell may be known by, the best first, but for the device."""
        parts = cell.model, cell.config, cell.workload
        ids = (id(cell.model), id(cell.config), id(cell.workload))
        if (known := self._keys.get(ids)) is None:  # the parts are kept, so that no other gets them
            known = self._keys[ids] = (parts, tuple(_keys(cell)))
        return known[1]

    def _chain(self, cell: Cell, device_type: str) -> Iterator[tuple[Likeness, Key, bool]]:
        for like, key in zip(_LIKENESSES, self.keys(cell), strict=True):
            yield like, (*key, device_type), True
            yield like, key, False


_LIKENESSES: tuple[Likeness, ...] = (
    "same config and subset", "same config", "same benchmark", "another model",
)  # fmt: skip


def _expected(times: _Times, like: Likeness, source: Key, there: bool) -> Expected:
    return Expected(
        seconds=times.middle,
        spread=times.spread,
        like=like,
        cells=len(times),
        source=source,
        there=there,
    )


def _keys(cell: Cell) -> Iterator[Key]:
    work = cell.workload
    benchmark = (work.name, canonical_json(dict(work.params)))
    own = (work.subset or "", str(work.batch_size), canonical_json(dict(work.generation)))
    yield ("cell", cell.model.name, cell.config.name, *benchmark, *own)
    yield ("config", cell.model.name, cell.config.name, *benchmark)
    yield ("benchmark", cell.model.name, *benchmark)
    yield ("any", *benchmark)
