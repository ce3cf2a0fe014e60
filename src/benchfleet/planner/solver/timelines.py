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


class Timelines:
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
            host: [timeline for timeline, where in enumerate(self.hosts) if where == host]
            for host in problem.slots
        }
        self._gangs = {
            host: [self.slots[timeline] for timeline in timelines]
            for host, timelines in self._of_host.items()
        }
        self._stacked = {
            host: len({len(self.slots[timeline]) for timeline in timelines}) > 1
            for host, timelines in self._of_host.items()
        }
        self.cells: list[dict[int, int]] = [{} for _ in self.slots]  # cells of each group
        self.models: list[dict[str, int]] = [{} for _ in self.slots]  # cells of each model
        self._seconds: list[dict[str, float]] = [{} for _ in self.slots]  # of each model
        self.work = [0.0] * len(self.slots)  # seconds, with loading and bringing
        self.having: dict[tuple[str, str], int] = {}  # lanes with each model that is brought
        self._transfers: dict[tuple[str, str], int] = {}  # the lane that brings it
        self._shared = dict.fromkeys(problem.slots, 0)  # models brought that several lanes want
        by_host: dict[str, dict[int, int]] = {}
        for (number, host, index), count in placed.items():
            width = problem.groups[number].ways[host].width
            self.change(self.of[host, width][index], number, count)
        placed_hosts = {host for _, host, _ in placed}
        for (number, host), count in counts.items():
            if host not in placed_hosts:
                by_host.setdefault(host, {})[number] = count
        for host, by_group in by_host.items():
            for share in shares(problem, host, by_group):
                timeline = self._timeline(host, share.slots)
                for work in share.work.values():
                    for _, number in work:
                        self.change(timeline, number, 1)

    def _timeline(self, host: str, slots: tuple[int, ...]) -> int:
        return next(
            timeline for timeline in self.of[host, len(slots)] if self.slots[timeline] == slots
        )

    @cached_property
    def ways(self) -> list[dict[int, tuple[float, str, float, float]]]:
        """By group and lane: seconds of a cell, its model, and seconds to load and bring that."""
        load, transfer = self.problem.load, self.problem.transfer
        return [
            {
                timeline: (way.seconds, way.model, load(host, way.model), transfer(host, way.model))
                for host, way in group.ways.items()
                for timeline in self.of[host, way.width]
            }
            for group in self.problem.groups
        ]

    def change(self, timeline: int, number: int, change: int) -> None:
        """So many cells of the group more, or less, in the lane."""
        seconds, model, load, transfer = self.ways[number][timeline]
        cells, models, host = self.cells[timeline], self.models[timeline], self.hosts[timeline]
        before = models.get(model, 0)
        self.work[timeline] += change * seconds
        if count := cells.get(number, 0) + change:
            cells[number] = count
        else:
            del cells[number]
        if after := before + change:
            models[model] = after
            spent = self._seconds[timeline]
            spent[model] = spent.get(model, 0.0) + change * seconds
        else:
            del models[model], self._seconds[timeline][model]
        if (before == 0) != (after == 0):
            sign = 1 if after else -1
            self.work[timeline] += sign * load
            if transfer:
                self._transfer(host, model, timeline, sign, transfer)

    def _transfer(self, host: str, model: str, timeline: int, sign: int, seconds: float) -> None:
        """The first lane that has the model brings it; when that gives it up, another does."""
        having = self.having[host, model] = self.having.get((host, model), 0) + sign
        if having + (sign < 0) == 2:
            self._shared[host] += sign
        if sign > 0 and having == 1:
            self._transfers[host, model] = timeline
            self.work[timeline] += seconds
        elif sign < 0 and self._transfers[host, model] == timeline:
            self.work[timeline] -= seconds
            if having:
                others = [one for one in self._of_host[host] if model in self.models[one]]
                other = self._transfers[host, model] = min(others, key=lambda one: self.work[one])
                self.work[other] += seconds

    def late(self, host: str, end: float) -> float:
        """How late the machine's slots are done: the seconds after this end, squared, of each."""
        return sum((done - end) ** 2 for done in self._ends(host) if done > end)

    def end(self) -> float:
        """When the last slot is done."""
        return max((done for host in self._of_host for done in self._ends(host)), default=0.0)

    def _ends(self, host: str) -> Sequence[float]:
        """When each slot of the machine is done that does anything."""
        timelines = self._of_host[host]
        if self._shared[host]:
            ends = [0.0] * self.problem.slots[host]
            alone = self._gangs[host]
            seconds = [self._seconds[timeline] for timeline in timelines]
            for index, model, _, ready in turns(self.problem, host, alone, seconds):
                for slot in alone[index]:
                    ends[slot] = ready + seconds[index][model]
            return ends
        if not self._stacked[host]:
            return [self.work[timeline] for timeline in timelines for _ in self.slots[timeline]]
        ends = [0.0] * self.problem.slots[host]
        for timeline in timelines:
            if work := self.work[timeline]:
                slots = self.slots[timeline]
                done = max(ends[slot] for slot in slots) + work
                for slot in slots:
                    ends[slot] = done
        return ends

    def of_host(self, host: str) -> Sequence[int]:
        return self._of_host[host]

    @property
    def counts(self) -> Counts:
        counts: Counts = {}
        for timeline, cells in enumerate(self.cells):
            for number, count in cells.items():
                key = number, self.hosts[timeline]
                counts[key] = counts.get(key, 0) + count
        return counts

    def pieces(self) -> list[Piece]:
        """All of it, laid out in time."""
        pieces: list[Piece] = []
        for host, timelines in self._of_host.items():
            shared = [
                Share(self.slots[timeline], self._by_model(timeline)) for timeline in timelines
            ]
            pieces += schedule(self.problem, host, shared)
        return pieces

    def _by_model(self, timeline: int) -> Mapping[str, list[tuple[float, int]]]:
        by_model: dict[str, list[tuple[float, int]]] = {}
        for number, count in self.cells[timeline].items():
            seconds, model, _, _ = self.ways[number][timeline]
            by_model.setdefault(model, []).extend([(seconds, number)] * count)
        return {model: sorted(work, reverse=True) for model, work in sorted(by_model.items())}
