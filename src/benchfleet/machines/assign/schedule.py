"""When a machine does what its slots were given: wide cells first, then by model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .packing import Cells, packed
from .problem import Piece, Problem


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
    found: list[Share] = []
    for width in sorted(by_width, reverse=True):
        work = {name: sorted(cells, reverse=True) for name, cells in by_width[width].items()}
        all_slots = gangs(len(ends), width)
        free = [max(ends[slot] for slot in slots) for slots in all_slots]
        mine = [
            Share(slots, held)
            for slots, held in zip(all_slots, packed(problem, host, free, work), strict=True)
        ]
        for share, begin in zip(mine, free, strict=True):
            for slot in share.slots if share.work else ():
                ends[slot] = begin + taken(problem, host, share)
        found += mine
    return found


def taken(problem: Problem, host: str, share: Share) -> float:
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
    ends = [0.0] * problem.slots[host]
    here: dict[str, float] = {}  # when each model has been brought
    found: list[Piece] = []
    for width in sorted({len(share.slots) for share in shared}, reverse=True):
        mine = [share for share in shared if len(share.slots) == width and share.work]
        free = [max(ends[slot] for slot in share.slots) for share in mine]
        for piece in _run(problem, host, mine, free, here):
            found.append(piece)
            for slot in piece.slots:
                ends[slot] = piece.end
    return found


def _run(
    problem: Problem,
    host: str,
    shared: Sequence[Share],
    free: list[float],
    here: dict[str, float],
) -> Iterator[Piece]:
    """Whoever is free first begins its next model."""
    work = [dict(share.work) for share in shared]
    while left := [place for place, models in enumerate(work) if models]:
        place = min(left, key=lambda one: (free[one], one))
        slots, begin = shared[place].slots, free[place]
        # First what is here already, then what nobody brings yet, at last what is under way.
        model = min(
            work[place],
            key=lambda name: (max(0.0, here.get(name, begin) - begin), name not in here),
        )
        if model not in here:
            here[model] = begin + problem.transfer(host, model)
        ready = max(begin, here[model]) + problem.load(host, model)
        if model and ready > begin:
            yield Piece(host=host, slots=slots, begin=begin, end=ready, model=model)
        for seconds, number in work[place].pop(model):
            end = ready + seconds
            yield Piece(host=host, slots=slots, begin=ready, end=end, model=model, group=number)
            ready = end
        free[place] = ready
