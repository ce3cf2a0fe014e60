"""In which order a machine does what it was given: wide cells first, then by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .problem import Piece, Problem

_CUTS = 7  # halvings of what lies between the best end that may be and one that is known
_Cells = list[tuple[float, int]]  # seconds and group of each, the longest first


@dataclass
class _Gang:
    """Slots that run one cell together; a slot alone most often."""

    slots: tuple[int, ...]
    free: float
    work: dict[str, _Cells] = field(default_factory=dict)  # by model
    pieces: list[tuple[float, float, str, int | None]] = field(default_factory=list)


def makespan(problem: Problem, host: str, counts: Mapping[int, int]) -> float:
    """When the machine is done with so many cells of each group."""
    if problem.slots[host] == 1:  # then it is a sum
        ways = {n: problem.groups[n].ways[host] for n, count in counts.items() if count}
        once = (
            problem.load(host, model) + problem.transfer(host, model)
            for model in dict.fromkeys(way.model for way in ways.values())
        )
        return sum(way.seconds * counts[number] for number, way in ways.items()) + sum(once)
    return max((piece.end for piece in schedule(problem, host, counts)), default=0.0)


def schedule(problem: Problem, host: str, counts: Mapping[int, int]) -> list[Piece]:
    """What each slot of the machine does when.

    A slot runs all its cells of a model one after the other. The first that wants a model brings
    it to the machine, and others wait for it.
    """
    ends = [0.0] * problem.slots[host]
    here: dict[str, float] = {}  # when each model has been brought
    found: list[Piece] = []
    by_width: dict[int, dict[str, _Cells]] = {}
    for number, count in counts.items():
        if count:
            way = problem.groups[number].ways[host]
            cells = by_width.setdefault(way.width, {}).setdefault(way.model, [])
            cells += [(way.seconds, number)] * count
    for width in sorted(by_width, reverse=True):
        gangs = _gangs(ends, width)
        work = {name: sorted(cells, reverse=True) for name, cells in by_width[width].items()}
        _share_out(problem, host, gangs, work)
        _run(problem, host, gangs, here)
        for gang in gangs:
            for slot in gang.slots:
                ends[slot] = max(ends[slot], gang.free)
            found += [
                Piece(host=host, slots=gang.slots, begin=b, end=e, model=model, group=group)
                for b, e, model, group in gang.pieces
            ]
    return found


def _gangs(ends: list[float], width: int) -> list[_Gang]:
    """As many as there can be; those that are done together stay together."""
    order = sorted(range(len(ends)), key=lambda slot: (ends[slot], slot))
    found = []
    for first in range(0, len(order) - width + 1, width):
        slots = tuple(sorted(order[first : first + width]))
        found.append(_Gang(slots=slots, free=max(ends[slot] for slot in slots)))
    return found


def _share_out(problem: Problem, host: str, gangs: list[_Gang], work: Mapping[str, _Cells]) -> None:
    """Give each gang its cells, so that the last is done soon: by the better of two ways, to fill
    one slot after the other up to a common end, and to give each cell to the slot done first."""
    loads = {name: problem.load(host, name) for name in work}
    brings = {name: problem.transfer(host, name) for name in work}
    total = sum(sum(seconds for seconds, _ in cells) for cells in work.values())
    begun = sum(gang.free for gang in gangs)
    low = (begun + total + sum(loads.values()) + sum(brings.values())) / len(gangs)
    best, high = _spread(gangs, work, loads, brings)
    for _ in range(_CUTS):
        if high - low < 0.002 * high:
            break
        middle = (low + high) / 2
        if (filled := _filled(gangs, work, loads, brings, middle)) is None:
            low = middle
        else:
            best, high = filled, middle
    for gang, share in zip(gangs, best, strict=True):
        gang.work = share


def _spread(
    gangs: Sequence[_Gang],
    work: Mapping[str, _Cells],
    loads: Mapping[str, float],
    brings: Mapping[str, float],
) -> tuple[list[dict[str, _Cells]], float]:
    """The longest cells first, each to the gang that is done first with it."""
    ends = [gang.free for gang in gangs]
    shares: list[dict[str, _Cells]] = [{} for _ in gangs]
    brought: set[str] = set()
    cells = [(seconds, number, name) for name, held in work.items() for seconds, number in held]
    for seconds, number, name in sorted(cells, key=lambda one: (-one[0], one[1])):
        fresh = loads[name] + (0.0 if name in brought else brings[name])
        best, chosen = 0.0, -1
        for place, end in enumerate(ends):
            after = end + seconds + (0.0 if name in shares[place] else fresh)
            if chosen < 0 or after < best:
                best, chosen = after, place
        ends[chosen] = best
        shares[chosen].setdefault(name, []).append((seconds, number))
        brought.add(name)
    return shares, max(ends)


def _filled(
    gangs: Sequence[_Gang],
    work: Mapping[str, _Cells],
    loads: Mapping[str, float],
    brings: Mapping[str, float],
    end: float,
) -> list[dict[str, _Cells]] | None:
    """Model by model into gang after gang, none of which ends after `end`; None where that is not
    to be done."""
    room = [end - gang.free for gang in gangs]
    shares: list[dict[str, _Cells]] = [{} for _ in gangs]
    sizes = {name: sum(seconds for seconds, _ in cells) for name, cells in work.items()}
    for name in sorted(work, key=lambda one: (-sizes[one], one)):
        left = work[name]
        bring = brings[name]
        while left:
            # The gang that takes all of it with least room to spare; else the one with most.
            need = sum(seconds for seconds, _ in left) + loads[name] + bring
            fitting = [place for place, spare in enumerate(room) if spare >= need]
            if fitting:
                place = min(fitting, key=lambda one: room[one])
            else:
                open_ = [p for p in range(len(room)) if name not in shares[p]]
                if not open_:
                    return None
                place = max(open_, key=lambda one: room[one])
            spare = room[place] - loads[name] - bring
            taken: _Cells = []
            later: _Cells = []
            for cell in left:
                if cell[0] <= spare:
                    taken.append(cell)
                    spare -= cell[0]
                else:
                    later.append(cell)
            if not taken:
                return None
            room[place], left, bring = spare, later, 0.0
            shares[place][name] = taken
    return shares


def _run(problem: Problem, host: str, gangs: list[_Gang], here: dict[str, float]) -> None:
    """Lay out the work of each gang in time; whoever is free first begins its next model."""
    while left := [gang for gang in gangs if gang.work]:
        gang = min(left, key=lambda one: (one.free, one.slots))
        begin = gang.free
        # First what is here already, then what nobody brings yet, at last what is under way.
        model = min(
            gang.work, key=lambda name: (max(0.0, here.get(name, begin) - begin), name not in here)
        )
        if model not in here:
            here[model] = begin + problem.transfer(host, model)
        ready = max(begin, here[model]) + problem.load(host, model)
        if model and ready > begin:
            gang.pieces.append((begin, ready, model, None))
        for seconds, number in gang.work.pop(model):
            gang.pieces.append((ready, ready + seconds, model, number))
            ready += seconds
        gang.free = ready
