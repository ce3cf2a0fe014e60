"""One machine as solvers see it: what it runs has room in its slots until the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .problem import Problem, Way
from .schedule import gangs

UNITS = 100_000  # that the makespan is counted in
_THRESHOLDS = 8  # of the times at which models may be there, about so many are counted from
_IN_A_ROW = 4  # so many long cells one after the other in a slot are counted


@dataclass(frozen=True)
class _Part:
    """Gangs of one width that are not told apart."""

    width: int
    gangs: int
    place: int  # of the first, among all of its width


# Whether a machine has a model; and by part whether that has it, the seconds of its cells, how many
# gangs load it, and whether one of them brings it.
_Used = tuple[Any, dict[int, tuple[Any, Any, Any, Any]]]


class Room:
    """A machine's cells, and what bounds them. Times are counted in a `unit` of so many seconds,
    and rounded down."""

    def __init__(
        self,
        problem: Problem,
        host: str,
        *,
        unit: float,
        model: Any,
        end: Any,
        apart: bool,
        cut: bool = False,
    ) -> None:
        """Gangs are told `apart` where that can be; cells may be `cut`."""
        self._problem, self._host, self._slots = problem, host, problem.slots[host]
        self._unit, self._model, self._end = unit, model, end
        self._amount = model.new_num_var if cut else model.new_int_var
        self._ways = {n: g.ways[host] for n, g in enumerate(problem.groups) if host in g.ways}
        self._counts = {n: problem.groups[n].count for n in self._ways}
        self._cells: dict[tuple[int, int], Any] = {}  # of a group in a part
        widths = sorted({way.width for way in self._ways.values()}, reverse=True)
        many = {width: len(gangs(self._slots, width)) for width in widths}
        self.parts = [_Part(width, many[width], 0) for width in widths]
        if apart and (len(widths) == 1 or self._slots == 2):
            self.parts = [_Part(width, 1, at) for width in widths for at in range(many[width])]

    @property
    def apart(self) -> bool:
        """Whether the machine's gangs are told apart."""
        return all(part.gangs == 1 for part in self.parts)

    def cells(self, number: int) -> Iterator[tuple[int, Any]]:
        """How many cells of the group each part runs, for those parts that can."""
        way = self._ways[number]
        most = self._in_a_row(way)
        for place, part in enumerate(self.parts):
            if part.width == way.width and (many := min(self._counts[number], most * part.gangs)):
                cells = self._amount(0, many, f"x{number}@{self._host}/{place}")
                self._cells[number, place] = cells
                yield place, cells

    def hold(self) -> None:
        """What the machine runs has room in its slots until the end."""
        parts, slots = self.parts, self._slots
        names = {self._ways[number].model for number, _ in self._cells}
        used = {name: self._having(name) for name in sorted(names)}
        if not used:
            return
        self._row(used, {place: part.width for place, part in enumerate(parts)}, slots)
        if len(parts) == 1:
            if slots % parts[0].width:
                self._row(used, {0: 1}, parts[0].gangs)
            self._idle(used, parts[0])
        elif any(part.gangs > 1 for part in parts):
            for place, part in enumerate(parts):
                self._row(used, {place: 1}, part.gangs)
        elif parts[0].width == parts[1].width:
            for place in range(len(parts)):
                self._row(used, {place: 1}, 1)
        else:
            for place in range(1, len(parts)):
                self._row(used, {0: 1, place: 1}, 1)
                self._narrow(used, place)
        self._long()
        self._alike()

    def _having(self, name: str) -> _Used:
        """Whether the machine has the model; and by part whether that has it, the seconds of its
        cells, how many gangs load it, and whether one of them brings it."""
        model, counts = self._model, self._counts
        bring = self._bring(name)
        room = max(0, self._room(name))
        mine: dict[int, list[int]] = {}
        for number, place in self._cells:
            if self._ways[number].model == name:
                mine.setdefault(place, []).append(number)
        here = model.new_bool_var(f"y{name}@{self._host}")
        found = {}
        brings: list[Any] = []
        for place, numbers in mine.items():
            part = self.parts[place]
            has, brought = here, here
            if len(mine) > 1:
                has = model.new_bool_var(f"y{name}@{self._host}/{place}")
                model.add(has <= here)
                brought = 0
                if bring:
                    brought = model.new_bool_var(f"b{name}@{self._host}/{place}")
                    model.add(brought <= has)
                    brings.append(brought)
            work = sum(self._cells[n, place] * self._units(self._ways[n].seconds) for n in numbers)
            loaded: Any = has
            if part.gangs > 1:
                most = min(part.gangs, sum(counts[n] for n in numbers))
                loaded = model.new_int_var(0, most, f"z{name}@{self._host}/{place}")
                model.add(loaded >= has)
                model.add(loaded <= most * has)
            model.add(work <= room * loaded)
            for n in numbers:
                count = counts[n]
                cells = self._cells[n, place]
                model.add(cells <= count * has)
                most = self._in_a_row(self._ways[n])
                if most < count:
                    model.add(cells <= most * loaded)
            found[place] = has, work, loaded, brought
        if len(mine) > 1:
            for n in {n for numbers in mine.values() for n in numbers}:
                all_cells = [self._cells[n, p] for p in mine if (n, p) in self._cells]
                model.add(sum(all_cells) <= counts[n] * here)
        if brings:
            model.add(sum(brings) == here)
        return here, found

    def _row(
        self,
        used: Mapping[str, _Used],
        weights: Mapping[int, int],
        slots: int,
    ) -> None:
        """So many slots have room for these parts; and since what is brought is not there before,
        for what is brought as long in what is left then."""
        model = self._model
        whole = len(weights) == len(self.parts)
        model.add(self._area(used, weights, 0) <= slots * self._end)
        if len(weights) == slots == 1 and whole:  # it brings all of them itself
            return
        longest = sorted(used, key=self._bring)
        for name in longest[:: max(1, len(longest) // _THRESHOLDS)]:
            here, parts = used[name]
            if not (bring := self._bring(name)):
                continue
            area = self._area(used, weights, bring)
            having = [here] if whole else [parts[p][0] for p in weights if p in parts]
            for has in having:
                model.add(area + slots * bring * has <= slots * self._end)

    def _narrow(self, used: Mapping[str, _Used], place: int) -> None:
        """A slot that is half of a gang waits for what is brought by itself or the other slot
        while the gang does nothing."""
        wide = self._area(used, {0: 1}, 0)
        for name, (_, parts) in used.items():
            bring = self._bring(name)
            if not bring or place not in parts:
                continue
            others = [
                one[0][3]
                for other, (_, one) in used.items()
                if {0, place} <= one.keys() and self._bring(other) >= bring
            ]
            waits = bring * parts[place][0] - bring * sum(others)
            self._model.add(wide + self._area(used, {place: 1}, bring) + waits <= self._end)

    def _idle(self, used: Mapping[str, _Used], part: _Part) -> None:
        """Each slot has nothing to do until the first of its models has been brought."""
        model, brings = self._model, {name: self._bring(name) for name in used}
        if part.gangs == 1 or len(set(brings.values())) < 2:
            return
        least = min(brings.values())
        busy = model.new_bool_var(f"u{self._host}")
        for here, _ in used.values():
            model.add(busy >= here)
        slots = part.gangs
        first = {name: model.new_int_var(0, slots, f"n{name}@{self._host}") for name in used}
        model.add(sum(first.values()) <= slots * busy)
        for name, (_, parts) in used.items():
            loaded = parts[0][2]
            model.add(first[name] <= loaded)
            sooner = [first[other] for other in used if brings[other] <= brings[name]]
            model.add(loaded <= sum(sooner))
        idle = sum((brings[name] - least) * count for name, count in first.items())
        area = sum(
            parts[0][1] + self._load(name) * parts[0][2] for name, (_, parts) in used.items()
        )
        model.add(
            part.width * (idle + area) + part.width * least * slots * busy
            <= part.width * slots * self._end
        )

    def _area(
        self,
        used: Mapping[str, _Used],
        weights: Mapping[int, int],
        after: int,
    ) -> Any:
        """What models that are brought as long take of the parts after so much time."""
        terms: list[Any] = []
        for name, (_, parts) in used.items():
            bring = self._bring(name)
            if bring < after:
                continue
            for place, weight in weights.items():
                if place in parts:
                    _, work, loaded, brought = parts[place]
                    terms.append(weight * (work + self._load(name) * loaded))
                    if bring > after:
                        terms.append(weight * (bring - after) * brought)
        return sum(terms)

    def _long(self) -> None:
        """Cells so long that only few of them can follow each other are no more than that."""
        for place, part in enumerate(self.parts):
            ways = {n: self._ways[n] for n, p in self._cells if p == place}
            if not ways:
                continue
            room = max(self._room(way.model) for way in ways.values())
            for many in range(1, _IN_A_ROW + 1):
                long = [
                    n for n, way in ways.items() if (many + 1) * self._units(way.seconds) > room
                ]
                if sum(self._counts[n] for n in long) > many * part.gangs:
                    cells = [self._cells[n, place] for n in long]
                    self._model.add(sum(cells) <= many * part.gangs)

    def _alike(self) -> None:
        """Of gangs that are alike the first has the most to do."""
        for one, (part, other) in enumerate(pairwise(self.parts)):
            if part.gangs == other.gangs == 1 and part.width == other.width:
                works = [
                    sum(
                        cells * self._units(self._ways[n].seconds)
                        for (n, place), cells in self._cells.items()
                        if place == at
                    )
                    for at in (one, one + 1)
                ]
                self._model.add(works[0] >= works[1])

    def _units(self, seconds: float) -> int:
        return int(seconds / self._unit)

    def _load(self, name: str) -> int:
        return self._units(self._problem.load(self._host, name))

    def _bring(self, name: str) -> int:
        return self._units(self._problem.transfer(self._host, name))

    def _room(self, name: str) -> int:
        """What is left until the end once a slot has the model."""
        return UNITS + 1 - self._load(name) - self._bring(name)

    def _in_a_row(self, way: Way) -> int:
        """How many such cells a slot can run at most."""
        room = self._room(way.model)
        if room < 0:
            return 0
        return room // max(1, self._units(way.seconds)) if way.seconds else 10**6
