"""What one slot of a machine can run until some time: of all patterns the one worth most.

A pattern is a set of cells, with the loading of their models. Times are counted in units, rounded
down, and worths are whole numbers, so that nothing is lost by rounding but a little of the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .problem import Problem
from .schedule import gangs

_NEVER = -(2**30)
_Ints = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class _Batch:
    """Cells of one group that a slot runs together or not at all."""

    group: int
    count: int
    units: int  # of time


@dataclass(frozen=True)
class Kind:
    """The cells of one model and width on a machine."""

    model: str
    width: int
    load: int
    bring: int
    alone: bool  # whether only one gang can want the model, or nothing is brought
    batches: tuple[_Batch, ...]


@dataclass(frozen=True)
class Pattern:
    """What one slot runs; of a gang each slot has its share."""

    cells: Mapping[int, float]  # by group
    brings: Mapping[str, float]  # models, by share; for those that alone want them nothing is told
    waits: Mapping[str, float]  # models that another gang brings


@dataclass(frozen=True)
class Prices:
    """What a machine's slots are paid and pay, in whole numbers."""

    cells: Sequence[int]  # paid for one of each group
    joint: Mapping[int, int] = field(default_factory=dict)  # of that goes to who brings its model
    waiting: Mapping[str, int] = field(default_factory=dict)  # for a model that another brings


@dataclass(frozen=True)
class _Step:
    """How a kind of cells came in, to be followed back."""

    kind: Kind
    taken: list[tuple[_Batch, Any]]  # in which states each batch was taken, by way and time
    chosen: tuple[Any, Any, Any]  # by row and time: which way it came in, from 1, or 0


class Slot:
    """Any slot of one machine."""

    def __init__(self, problem: Problem, host: str, *, unit: float, most: int) -> None:
        """`most` are the units of time that are looked at."""
        self.host, self.slots, self._most = host, problem.slots[host], most
        kinds: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for number, group in enumerate(problem.groups):
            if way := group.ways.get(host):
                kinds.setdefault((way.model, way.width), []).append((number, way.seconds))
        self.lanes: dict[str, int] = {}  # gangs that may want each model
        for model, width in kinds:
            self.lanes[model] = self.lanes.get(model, 0) + len(gangs(self.slots, width))
        self.counts = {n: problem.groups[n].count for cells in kinds.values() for n, _ in cells}
        self.kinds = sorted(
            (
                self._kind(problem, model, width, cells, unit)
                for (model, width), cells in kinds.items()
            ),
            key=lambda kind: (not kind.alone, kind.bring),
        )
        self._shared = any(not kind.alone for kind in self.kinds)
        self.of_model: dict[str, list[int]] = {}  # groups whose model several gangs may want
        for kind in self.kinds:
            if not kind.alone:
                numbers = sorted({batch.group for batch in kind.batches})
                self.of_model.setdefault(kind.model, []).extend(numbers)

    def _kind(
        self,
        problem: Problem,
        model: str,
        width: int,
        cells: Sequence[tuple[int, float]],
        unit: float,
    ) -> Kind:
        load = int(problem.load(self.host, model) / unit)
        bring = int(problem.transfer(self.host, model) / unit)
        batches = []
        for number, seconds in cells:
            units = int(seconds / unit)
            left = min(self.counts[number], max(0, self._most - load - bring) // max(1, units))
            if not units:
                left = self.counts[number]
            count = 1
            while left:  # 1, 2, 4…: any number of them is a sum of batches
                count = min(count, left)
                batches.append(_Batch(number, count, units * count))
                left -= count
                count *= 2
        alone = bring == 0 or self.lanes[model] == 1
        return Kind(model, width, load, bring, alone, tuple(batches))

    def worths(self, prices: Prices, until: int) -> tuple[_Ints, Pattern]:
        """The most that a pattern is worth, by its end; and one for that end.

        A row for each state: of slots that bring nothing, which wait for what they want; of slots
        that will bring something more, which takes as long as what came in so far, so that they
        need wait for none of that; and of slots that will bring nothing more, and wait again.
        """
        size = self._most + 1
        best = np.zeros((3 if self._shared else 1, size), np.int32)
        if self._shared:
            best[2] = _NEVER
        steps = []
        for kind in self.kinds:
            if kind.load + kind.bring < size:
                steps.append(self._with(kind, best, prices))
        if not self._shared:
            return best[0], self._followed(steps, 0, until)
        row = 0 if best[0, until] >= best[2, until] else 2
        return np.maximum(best[0], best[2]), self._followed(steps, row, until)

    def _with(self, kind: Kind, best: _Ints, prices: Prices) -> _Step:
        """Let the kind come in."""
        size, setup = self._most + 1, kind.load + kind.bring
        rows = len(best)
        several = not kind.alone
        ways = np.full((rows + several, size), _NEVER, np.int32)
        if several:
            load, bring = kind.load, kind.bring
            ways[[0, 2], setup:] = best[[0, 2], bring : size - load]
            ways[1, load:] = best[1, : size - load]
            ways[3, setup:] = best[1, : size - setup]
        else:
            ways[:, setup:] = best[:, : size - setup]
        taken = []
        for batch in kind.batches:
            paid = prices.cells[batch.group]
            if several:
                paid -= prices.joint.get(batch.group, 0)
            worth = -(-paid * batch.count // kind.width)
            if worth <= 0 or batch.units >= size:
                continue
            other = ways[:, : size - batch.units] + np.int32(worth)
            here = ways[:, batch.units :]
            taken.append((batch, other > here))
            np.maximum(here, other, out=here)
        chosen = []
        if several:
            pays = -(prices.waiting.get(kind.model, 0) // kind.width)
            ways[:3] += np.int32(pays)
            ways[3] += np.int32(self._earned(kind, prices))
        for row in range(rows):
            came: Any = (ways[row] > best[row]).astype(np.int8)
            np.maximum(best[row], ways[row], out=best[row])
            if several and row:
                came[ways[3] > best[row]] = 2
                np.maximum(best[row], ways[3], out=best[row])
            chosen.append(came)
        while len(chosen) < 3:
            chosen.append(chosen[0])
        return _Step(kind, taken, (chosen[0], chosen[1], chosen[2]))

    def _earned(self, kind: Kind, prices: Prices) -> int:
        """By a slot that brings the model."""
        joint = sum(
            prices.joint.get(number, 0) * self.counts[number]
            for number in self.of_model[kind.model]
        )
        all_ = joint + prices.waiting.get(kind.model, 0) * (self.lanes[kind.model] - 1)
        return -(-all_ // kind.width)

    def _followed(self, steps: Sequence[_Step], row: int, until: int) -> Pattern:
        """The pattern that came to this state at this time."""
        cells: dict[int, float] = {}
        brings: dict[str, float] = {}
        waits: dict[str, float] = {}
        at = until
        for step in reversed(steps):
            way = int(step.chosen[row][at])
            if not way:
                continue
            kind = step.kind
            place = 3 if way == 2 else row
            for batch, taken in reversed(step.taken):
                if at >= batch.units and taken[place, at - batch.units]:
                    part = batch.count / kind.width
                    cells[batch.group] = cells.get(batch.group, 0.0) + part
                    at -= batch.units
            if kind.alone:
                at -= kind.load + kind.bring
            elif way == 2:
                at -= kind.load + kind.bring
                brings[kind.model] = brings.get(kind.model, 0.0) + 1 / kind.width
                row = 1
            else:
                at -= kind.load
                waits[kind.model] = waits.get(kind.model, 0.0) + 1 / kind.width
        return Pattern(cells, brings, waits)
