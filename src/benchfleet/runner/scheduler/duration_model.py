"""Learns how long cells and loads take: medians of what ended well. Pure.

A cell is expected to take the median of cells with the same model, config, benchmark and subset;
else of its model and benchmark, else of its benchmark. Of each, those on the same type of device
count before those on any. Times scale with the number of samples, where it is declared.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from statistics import median
from typing import Literal

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.cell import Cell

Key = tuple[str, ...]
Likeness = Literal["same cell", "same model", "another model"]
LIKENESSES: tuple[Likeness, ...] = ("same cell", "same model", "another model")

_MAX_TIMES = 99  # the latest, of which a median is taken
_MAX_COMPARED = 1000  # kinds of cells, to compare two types of device
_CHANGED = 0.15  # of a median: a smaller change is not worth ranking cells again
_MIN_ERRORS = 5
_DEFAULT_ERROR = 0.5  # of an expected time, while fewer errors than these are known


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How long a cell should take once its model is loaded, and what that is derived from."""

    seconds: float
    like: Likeness  # what those cells have in common with it
    cells: int  # how many of them
    same_device: bool = False  # they ran on the type of device that was asked for


class _Times:
    """The times of cells that are alike."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_MAX_TIMES)
        self._reported = 0.0  # the median when `add` last reported a change
        self.median = 0.0

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, seconds: float) -> bool:
        """Add a time; whether the median changed much."""
        self._latest.append(seconds)
        self.median = median(self._latest)
        if len(self) > 1 and abs(self.median - self._reported) <= _CHANGED * self._reported:
            return False
        self._reported = self.median
        return True


class DurationModel:
    """What is known of the times of cells and loads."""

    def __init__(self, ended: Iterable[tuple[Cell, Outcome]] = ()) -> None:
        # By type of device ("": any) and likeness.
        self._times: defaultdict[tuple[str, Likeness], dict[Key, _Times]] = defaultdict(dict)
        self._loads: dict[tuple[str, str], _Times] = {}  # by model and type of device
        self._all = {True: _Times(), False: _Times()}  # of cells with a limit of samples, or not
        self._errors: deque[float] = deque(maxlen=_MAX_TIMES)  # relative, of expected times
        self._keys: dict[tuple[int, int, int], tuple[object, tuple[Key, ...]]] = {}
        for cell, outcome in ended:
            self.learn(cell, outcome)

    def learn(self, cell: Cell, outcome: Outcome) -> list[Key]:
        """Take in how a cell ended; the keys whose median changed much."""
        if outcome.state != "success":
            return []
        device = outcome.device_type
        devices = (device, "") if device else ("",)
        if load := outcome.seconds.get("load"):
            for where in devices:
                self._loads.setdefault((cell.model.name, where), _Times()).add(load)
        seconds = outcome.seconds.get("benchmark")
        if seconds is None or outcome.resumed:
            return []
        if (expected := self.expected(cell, device)) and expected.seconds:
            self._errors.append(abs(seconds / expected.seconds - 1))
        self._all[_is_limited(cell)].add(seconds)
        changed: list[Key] = []
        for like, key in zip(LIKENESSES, self.keys(cell), strict=True):
            for where in devices:
                times = self._times[where, like].setdefault(key, _Times())
                if times.add(seconds / size(cell)):
                    changed.append(key)
        return changed

    def expected(self, cell: Cell, device_type: str = "") -> Expected | None:
        """How long the cell should take; None where nothing is known."""
        for like, key in zip(LIKENESSES, self.keys(cell), strict=True):
            for where in (device_type, ""):
                if times := self._times[where, like].get(key):
                    return Expected(
                        seconds=times.median * size(cell),
                        like=like,
                        cells=len(times),
                        same_device=where == device_type,
                    )
        return None

    def typical(self, *, limited: bool) -> float | None:
        """The median of all cells with a limit of samples, or of those without; None before the
        first."""
        times = self._all[limited]
        return times.median if len(times) else None

    def error(self, cells: int) -> float:
        """What the expected time of so many cells together is off by, as a part of it: two of three
        cells so far were off by less. The error of each evens out over the cells; that of what is
        known, over the cells that it is known from."""
        known_errors = len(self._errors)
        error = _DEFAULT_ERROR
        if known_errors >= _MIN_ERRORS:
            error = sorted(self._errors)[2 * known_errors // 3]
        return error * sqrt(1 / max(1, cells) + 1 / max(1, known_errors))

    def slowdown(self, device_type: str, than: str) -> float | None:
        """How many times as long cells take on one type of device as on another (``""``: on any),
        by those of one model that ran on both, the most alike first; None where none did. Two
        models say nothing of devices: one may be large and the other small."""
        for like in LIKENESSES[:2]:
            own, same_device = self._times[device_type, like], self._times[than, like]
            ratios = [
                times.median / same_device[key].median
                for key, times in islice(own.items(), _MAX_COMPARED)
                if key in same_device and same_device[key].median > 0
                if than or len(times) < len(same_device[key])  # else they ran on this type alone
            ]
            if ratios:
                return median(ratios)
        return None

    def load(self, model: str, device_type: str = "") -> float:
        """Seconds that the model takes to load; 0 where nobody knows."""
        times = self._loads.get((model, device_type)) or self._loads.get((model, ""))
        return times.median if times else 0.0

    def keys(self, cell: Cell) -> tuple[Key, ...]:
        """What the cell has in common with others, the most first."""
        parts = cell.model, cell.config, cell.workload
        ids = (id(cell.model), id(cell.config), id(cell.workload))
        cached = self._keys.get(ids)
        if cached is None:  # the parts are kept, so that no others get their ids
            cached = self._keys[ids] = (parts, tuple(_keys(cell)))
        return cached[1]


def _is_limited(cell: Cell) -> bool:
    return cell.workload.limit is not None


def size(cell: Cell) -> float:
    """What a time is divided by to compare cells: their samples, where those are declared, and the
    answers to each; of a part its share of them."""
    work = cell.workload
    share = cell.part.share if cell.part else 1
    return (work.declared_samples or 1) * work.samples_per_question * share


def _keys(cell: Cell) -> Iterator[Key]:
    work = cell.workload
    params = {name: value for name, value in work.params.items() if name != "samples"}
    counted = "counted" if work.declared_samples else ""
    benchmark = (work.name, canonical_json(params), counted)
    own = (work.subset or "", str(work.batch_size), canonical_json(dict(work.generation)))
    yield (cell.model.name, cell.config.name, *benchmark, *own)
    yield (cell.model.name, *benchmark)
    yield benchmark
