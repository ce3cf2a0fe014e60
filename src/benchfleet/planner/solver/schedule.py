"""When a machine does what its slots were given: wide cells first, then by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import inf

from .problem import Piece, Problem

Cells = list[tuple[float, int]]  # seconds and group of each, longest first


@dataclass(frozen=True)
class Share:
    """What slots run together; a slot alone most often."""

    slots: tuple[int, ...]
    work: Mapping[str, Cells]  # by model


def gangs(slots: int, width: int) -> list[tuple[int, ...]]:
    """As many as there can be with so many slots each."""
    return [tuple(range(n, n + width)) for n in range(0, slots - width + 1, width)]


def shares(problem: Problem, host: str, counts: Mapping[int, int]) -> list[Share]:
    """So many cells of each group into the machine's slots by a quick rule, the widest first."""
    ends = [0.0] * problem.slots[host]
    by_width: dict[int, dict[str, Cells]] = {}
    for number, count in counts.items():
        if count:
            way = problem.groups[number].ways[host]
            cells = by_width.setdefault(way.width, {}).setdefault(way.model, [])
            cells += [(way.seconds, number)] * count
    all_shares: list[Share] = []
    for width in sorted(by_width, reverse=True):
        by_model = {name: sorted(cells, reverse=True) for name, cells in by_width[width].items()}
        all_slots = gangs(len(ends), width)
        free = [max(ends[slot] for slot in slots) for slots in all_slots]
        new_shares = [
            Share(slots, work)
            for slots, work in zip(all_slots, _pack(problem, host, free, by_model), strict=True)
        ]
        for share, begin in zip(new_shares, free, strict=True):
            for slot in share.slots if share.work else ():
                ends[slot] = begin + busy_seconds(problem, host, share)
        all_shares += new_shares
    return all_shares


def _pack(
    problem: Problem, host: str, free: Sequence[float], work: Mapping[str, Cells]
) -> list[dict[str, Cells]]:
    """What each gang runs, by model: longest cells first, each to the gang that ends it first.
    `free` is when each gang can begin."""
    ends = list(free)
    packed: list[dict[str, Cells]] = [{} for _ in free]
    transferred: set[str] = set()
    single = [(seconds, number, name) for name, cells in work.items() for seconds, number in cells]
    for seconds, number, name in sorted(single, key=lambda one: (-one[0], one[1])):
        setup = problem.load(host, name)
        if name not in transferred:
            setup += problem.transfer(host, name)
        after = [
            end + seconds + (0.0 if name in cells else setup)
            for end, cells in zip(ends, packed, strict=True)
        ]
        best = after.index(min(after))
        ends[best] = after[best]
        packed[best].setdefault(name, []).append((seconds, number))
        transferred.add(name)
    return packed


def busy_seconds(problem: Problem, host: str, share: Share) -> float:
    """Seconds of its cells and of loading their models."""
    return sum(
        problem.load(host, model) + sum(seconds for seconds, _ in cells)
        for model, cells in share.work.items()
    )


def schedule(problem: Problem, host: str, shared: Sequence[Share]) -> list[Piece]:
    """When the slots run what they were given.

    They run all their cells of a model one after the other. The first that wants a model brings
    it to the machine, and others wait for it.
    """
    pieces: list[Piece] = []
    doing = [share for share in shared if share.work]
    seconds = [
        {name: sum(cell[0] for cell in cells) for name, cells in share.work.items()}
        for share in doing
    ]
    order = turns(problem, host, [share.slots for share in doing], seconds)
    for index, model, begin, ready in order:
        slots = doing[index].slots
        if model and ready > begin:
            pieces.append(Piece(host=host, slots=slots, begin=begin, end=ready, model=model))
        for length, number in doing[index].work[model]:
            end = ready + length
            pieces.append(
                Piece(host=host, slots=slots, begin=ready, end=end, model=model, group=number)
            )
            ready = end
    return pieces


def turns(
    problem: Problem,
    host: str,
    slots: Sequence[tuple[int, ...]],
    seconds: Sequence[Mapping[str, float]],
) -> list[tuple[int, str, float, float]]:
    """In which order gangs do what they have of each model: gang, model, when it turns to it and
    when it begins its cells. The widest gangs go first; the first free one begins its next."""
    costs = problem.setups[host]
    ends = [0.0] * problem.slots[host]
    ready_at: dict[str, float] = {}  # when each model has been brought
    turns_taken: list[tuple[int, str, float, float]] = []
    for width in sorted({len(gang) for gang in slots}, reverse=True):
        queue = [
            (max([ends[slot] for slot in gang]), index, list(seconds[index]))
            for index, gang in enumerate(slots)
            if len(gang) == width and seconds[index]
        ]
        heapify(queue)
        while queue:
            begin, index, names = queue[0]
            model = names[0] if len(names) == 1 else _next_model(names, begin, ready_at, costs)
            load, transfer = costs[model]
            at = ready_at.get(model)
            if at is None:
                at = ready_at[model] = begin + transfer
            ready = (at if at > begin else begin) + load
            turns_taken.append((index, model, begin, ready))
            done = ready + seconds[index][model]
            names.remove(model)
            if names:
                heapreplace(queue, (done, index, names))
            else:
                heappop(queue)
                for slot in slots[index]:
                    ends[slot] = done
    return turns_taken


def _next_model(
    names: Sequence[str],
    begin: float,
    ready_at: Mapping[str, float],
    costs: Mapping[str, tuple[float, float]],
) -> str:
    """First what is here, then what nobody brings yet (the longest), at last what is under way."""
    best, longest, soonest = "", -1.0, inf
    for name in names:
        at = ready_at.get(name)
        if at is None:
            if costs[name][1] > longest:
                best, longest = name, costs[name][1]
        elif at <= begin:
            return name
        elif longest < 0 and at < soonest:
            best, soonest = name, at
    return best
