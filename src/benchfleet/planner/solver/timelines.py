"""Which cells each slot runs, changed cell by cell, with what of it ends too late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from .problem import Counts, Piece, Placed, Problem
from .schedule import Share, gangs, schedule, shares, turns

_NOWHERE: Placed = {}


def placed(pieces: Iterable[Piece]) -> dict[tuple[int, str, int], int]:
    """How many cells of each group each gang of slots runs in a plan."""
    return Counter(
        (piece.group, piece.host, piece.slots[0] // len(piece.slots))
        for piece in pieces
        if piece.group is not None
    )


class Lanes:
    """The slots of all machines, alone and in gangs, and the cells of each.

    A lane is a gang of slots of one width. On a machine the lanes of the widest cells come first.
    Cells whose slot is known are `placed`; a quick rule places the others.
    """

    def __init__(self, problem: Problem, counts: Counts, placed: Placed = _NOWHERE) -> None:
        self.problem = problem
        self.slots: list[tuple[int, ...]] = []  # of each lane
        self.hosts: list[str] = []
        self.of: dict[tuple[str, int], list[int]] = {}  # lanes by machine and width, widest first
        for host, count in problem.slots.items():
            widths = {group.ways[host].width for group in problem.groups if host in group.ways}
            for width in sorted(widths, reverse=True):
                for slots in gangs(count, width):
                    self.of.setdefault((host, width), []).append(len(self.slots))
                    self.slots.append(slots)
                    self.hosts.append(host)
        self._of_host = {
            host: [lane for lane, where in enumerate(self.hosts) if where == host]
            for host in problem.slots
        }
        self._gangs = {
            host: [self.slots[lane] for lane in lanes] for host, lanes in self._of_host.items()
        }
        self._stacked = {
            host: len({len(self.slots[lane]) for lane in lanes}) > 1
            for host, lanes in self._of_host.items()
        }
        self.held: list[dict[int, int]] = [{} for _ in self.slots]  # cells of each group
        self.models: list[dict[str, int]] = [{} for _ in self.slots]  # cells of each model
        self._seconds: list[dict[str, float]] = [{} for _ in self.slots]  # of each model
        self.work = [0.0] * len(self.slots)  # seconds, with loading and bringing
        self.having: dict[tuple[str, str], int] = {}  # lanes with each model that is brought
        self._brings: dict[tuple[str, str], int] = {}  # the lane that brings it
        self._shared = dict.fromkeys(problem.slots, 0)  # models brought that several lanes want
        by_host: dict[str, dict[int, int]] = {}
        for (number, host, place), count in placed.items():
            width = problem.groups[number].ways[host].width
            self.change(self.of[host, width][place], number, count)
        known = {host for _, host, _ in placed}
        for (number, host), count in counts.items():
            if host not in known:
                by_host.setdefault(host, {})[number] = count
        for host, held in by_host.items():
            for share in shares(problem, host, held):
                lane = self._lane(host, share.slots)
                for cells in share.work.values():
                    for _, number in cells:
                        self.change(lane, number, 1)

    def _lane(self, host: str, slots: tuple[int, ...]) -> int:
        return next(lane for lane in self.of[host, len(slots)] if self.slots[lane] == slots)

    @cached_property
    def ways(self) -> list[dict[int, tuple[float, str, float, float]]]:
        """By group and lane: seconds of a cell, its model, and seconds to load and bring that."""
        load, bring = self.problem.load, self.problem.transfer
        return [
            {
                lane: (way.seconds, way.model, load(host, way.model), bring(host, way.model))
                for host, way in group.ways.items()
                for lane in self.of[host, way.width]
            }
            for group in self.problem.groups
        ]

    def change(self, lane: int, number: int, change: int) -> None:
        """So many cells of the group more, or less, in the lane."""
        seconds, model, load, bring = self.ways[number][lane]
        held, models, host = self.held[lane], self.models[lane], self.hosts[lane]
        before = models.get(model, 0)
        self.work[lane] += change * seconds
        if count := held.get(number, 0) + change:
            held[number] = count
        else:
            del held[number]
        if after := before + change:
            models[model] = after
            spent = self._seconds[lane]
            spent[model] = spent.get(model, 0.0) + change * seconds
        else:
            del models[model], self._seconds[lane][model]
        if (before == 0) != (after == 0):
            sign = 1 if after else -1
            self.work[lane] += sign * load
            if bring:
                self._bring(host, model, lane, sign, bring)

    def _bring(self, host: str, model: str, lane: int, sign: int, seconds: float) -> None:
        """The first lane that has the model brings it; when that gives it up, another does."""
        having = self.having[host, model] = self.having.get((host, model), 0) + sign
        if having + (sign < 0) == 2:
            self._shared[host] += sign
        if sign > 0 and having == 1:
            self._brings[host, model] = lane
            self.work[lane] += seconds
        elif sign < 0 and self._brings[host, model] == lane:
            self.work[lane] -= seconds
            if having:
                others = [one for one in self._of_host[host] if model in self.models[one]]
                other = self._brings[host, model] = min(others, key=lambda one: self.work[one])
                self.work[other] += seconds

    def late(self, host: str, end: float) -> float:
        """How late the machine's slots are done: the seconds after this end, squared, of each."""
        return sum((done - end) ** 2 for done in self._ends(host) if done > end)

    def end(self) -> float:
        """When the last slot is done."""
        return max((done for host in self._of_host for done in self._ends(host)), default=0.0)

    def _ends(self, host: str) -> Sequence[float]:
        """When each slot of the machine is done that does anything."""
        lanes = self._of_host[host]
        if self._shared[host]:
            ends = [0.0] * self.problem.slots[host]
            alone = self._gangs[host]
            seconds = [self._seconds[lane] for lane in lanes]
            for place, model, _, ready in turns(self.problem, host, alone, seconds):
                for slot in alone[place]:
                    ends[slot] = ready + seconds[place][model]
            return ends
        if not self._stacked[host]:
            return [self.work[lane] for lane in lanes for _ in self.slots[lane]]
        ends = [0.0] * self.problem.slots[host]
        for lane in lanes:
            if work := self.work[lane]:
                slots = self.slots[lane]
                done = max(ends[slot] for slot in slots) + work
                for slot in slots:
                    ends[slot] = done
        return ends

    def of_host(self, host: str) -> Sequence[int]:
        return self._of_host[host]

    @property
    def counts(self) -> Counts:
        found: Counts = {}
        for lane, held in enumerate(self.held):
            for number, count in held.items():
                key = number, self.hosts[lane]
                found[key] = found.get(key, 0) + count
        return found

    def pieces(self) -> list[Piece]:
        """All of it, laid out in time."""
        found: list[Piece] = []
        for host, lanes in self._of_host.items():
            shared = [Share(self.slots[lane], self._by_model(lane)) for lane in lanes]
            found += schedule(self.problem, host, shared)
        return found

    def _by_model(self, lane: int) -> Mapping[str, list[tuple[float, int]]]:
        found: dict[str, list[tuple[float, int]]] = {}
        for number, count in self.held[lane].items():
            seconds, model, _, _ = self.ways[number][lane]
            found.setdefault(model, []).extend([(seconds, number)] * count)
        return {model: sorted(cells, reverse=True) for model, cells in sorted(found.items())}
