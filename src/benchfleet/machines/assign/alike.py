"""Groups whose cells are alike wherever they run, made one: fewer are sooner planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .problem import Group, Piece, Problem


def merged(problem: Problem) -> tuple[Problem, list[list[int]]]:
    """The problem with such groups as one, and of which each is made. Those that are to be run in
    one form with others stay as they are."""
    bound = {number for numbers in problem.blocks.values() for number in numbers}
    found: dict[object, list[int]] = {}
    for number, group in enumerate(problem.groups):
        found.setdefault(number if number in bound else group.kind, []).append(number)
    groups = tuple(
        Group(
            count=sum(problem.groups[number].count for number in numbers),
            ways=problem.groups[numbers[0]].ways,
            block=problem.groups[numbers[0]].block if numbers[0] in bound else "",
        )
        for numbers in found.values()
    )
    return replace(problem, groups=groups), list(found.values())


def parted(
    problem: Problem, made_of: Sequence[Sequence[int]], pieces: Sequence[Piece]
) -> list[Piece]:
    """The pieces of a plan for the merged problem, as those of the problem."""

    def cells(numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            yield from [number] * problem.groups[number].count

    left = [cells(numbers) for numbers in made_of]
    return [
        piece if piece.group is None else replace(piece, group=next(left[piece.group]))
        for piece in pieces
    ]
