"""Cells of a machine into its slots by a quick rule, so that the last is done soon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .problem import Problem

_CUTS = 7  # halvings of what lies between the best end that may be and one that is known
Cells = list[tuple[float, int]]  # seconds and group of each, the longest first


def packed(
    problem: Problem, host: str, free: Sequence[float], work: Mapping[str, Cells]
) -> list[dict[str, Cells]]:
    """What each gang runs, by model, where each is free from then on: by the better of two ways,
    to fill one after the other up to a common end, and to give each cell to the one done first."""
    loads = {name: problem.load(host, name) for name in work}
    brings = {name: problem.transfer(host, name) for name in work}
    total = sum(sum(seconds for seconds, _ in cells) for cells in work.values())
    low = (sum(free) + total + sum(loads.values()) + sum(brings.values())) / len(free)
    best, high = _spread(free, work, loads, brings)
    for _ in range(_CUTS):
        if high - low < 0.002 * high:
            break
        middle = (low + high) / 2
        if (filled := _filled(free, work, loads, brings, middle)) is None:
            low = middle
        else:
            best, high = filled, middle
    return best


def _spread(
    free: Sequence[float],
    work: Mapping[str, Cells],
    loads: Mapping[str, float],
    brings: Mapping[str, float],
) -> tuple[list[dict[str, Cells]], float]:
    """The longest cells first, each to the gang that is done first with it."""
    ends = list(free)
    shares: list[dict[str, Cells]] = [{} for _ in free]
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
    free: Sequence[float],
    work: Mapping[str, Cells],
    loads: Mapping[str, float],
    brings: Mapping[str, float],
    end: float,
) -> list[dict[str, Cells]] | None:
    """Model by model into gang after gang, none of which ends after `end`; None where that is not
    to be done."""
    room = [end - begin for begin in free]
    shares: list[dict[str, Cells]] = [{} for _ in free]
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
            taken: Cells = []
            later: Cells = []
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
