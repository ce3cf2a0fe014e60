"""Groups of identical cells merged into one, so that the problem is smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .problem import Group, Piece, Problem


def merge(problem: Problem) -> tuple[Problem, list[list[int]]]:
    """The problem with identical groups merged, and the numbers of the groups in each. Groups of
    blocks with several forms stay apart."""
    bound = {number for numbers in problem.blocks.values() for number in numbers}
    groups_of: dict[object, list[int]] = {}
    for number, group in enumerate(problem.groups):
        groups_of.setdefault(number if number in bound else group.kind, []).append(number)
    groups = tuple(
        Group(
            count=sum(problem.groups[number].count for number in numbers),
            ways=problem.groups[numbers[0]].ways,
            block=problem.groups[numbers[0]].block if numbers[0] in bound else "",
        )
        for numbers in groups_of.values()
    )
    return replace(problem, groups=groups), list(groups_of.values())


def expand(
    problem: Problem, members: Sequence[Sequence[int]], pieces: Sequence[Piece]
) -> list[Piece]:
    """A plan for the merged problem as a plan for the problem."""

    def cells(numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            yield from [number] * problem.groups[number].count

    numbers_left = [cells(numbers) for numbers in members]
    return [
        piece if piece.group is None else replace(piece, group=next(numbers_left[piece.group]))
        for piece in pieces
    ]
