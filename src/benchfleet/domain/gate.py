"""What a gate's expression says of what the cells of a phase reported, with every number behind
the answer. It is never run as Python.

A bare metric stands for its values in all cells that succeeded; a comparison of it holds where it
holds in each of them. ``min max mean median sum count all any`` make one value of many, and
``each`` only chooses; all of them take the axes of a rule, as in ``mean(score, configs="dense")``.
``completeness`` is the share of cells that succeeded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from benchfleet.domain.words import counted

from .gate_grammar import (
    AGGREGATES,
    ARITHMETIC,
    COMPARISONS,
    EMPTY_IS_FINE,
    SHARES,
    TRUTHS,
    Value,
    check,
)
from .matrix import agrees

_SHOWN = 3  # cells that an explanation names


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One cell of a phase, as far as a gate looks at it."""

    cell: str  # its path
    axes: Mapping[str, str]  # its name on each axis
    success: bool
    values: Mapping[str, Value] = field(default_factory=dict)  # numbers and truths by name


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that an answer rests on."""

    text: str  # as the expression has it
    value: Value | None  # None: of many cells, each its own
    cells: int  # how many it is made of
    where: tuple[str, ...] = ()  # cells that it is of, or in which a comparison does not hold

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {_short(self.value)}"
        some = ", ".join(self.where[:_SHOWN]) + (", …" if len(self.where) > _SHOWN else "")
        cells = counted(self.cells, "cell")
        return f"{self.text}{shown} (of {cells}{': ' if some else ''}{some})"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Whether a gate's condition holds, and why."""

    holds: bool
    why: str  # why it does not, where a number alone does not tell; "" otherwise
    numbers: tuple[Number, ...] = ()


@dataclass(frozen=True)
class _Each:
    """A value for each of some cells."""

    values: Mapping[str, Value]  # by the cell's path

    def mapped(self, act: Callable[[Value], Value]) -> _Each:
        return _Each({cell: act(value) for cell, value in self.values.items()})


class _Unanswerable(Exception):
    """What a gate asks for is not there; its message says what."""


def answer(text: str, cells: Sequence[Reported]) -> Answer:
    """Whether the condition holds over these cells. An expression that does not speak of
    completeness asks for all of them. Raises ValueError for one that `check` refuses."""
    if problem := check(text):
        raise ValueError(problem)
    tree = ast.parse(text.strip(), mode="eval").body
    weighing = _Weighing(cells)
    try:
        holds, why = weighing.truth(weighing.value(tree), tree), ""
    except _Unanswerable as error:
        holds, why = False, str(error)
    speaks = any(isinstance(node, ast.Name) and node.id in SHARES for node in ast.walk(tree))
    lacking = [one.cell for one in cells if not one.success]
    if holds and lacking and not speaks:
        holds = False
        some = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
        why = (
            f"{len(lacking)} of {counted(len(cells), 'cell')} did not succeed ({some}); a gate "
            "that allows for it speaks of completeness"
        )
    return Answer(holds=holds, why=why, numbers=tuple(weighing.numbers))


class _Weighing:
    """One reading of an expression over cells; notes the numbers as it goes."""

    def __init__(self, cells: Sequence[Reported]) -> None:
        self._cells = cells
        self._chosen: Sequence[Reported] = cells  # inside a call, those that it names
        self._inside = 0
        self.numbers: list[Number] = []

    def value(self, node: ast.expr) -> Value | _Each:
        if isinstance(node, ast.BoolOp):
            truths = [self.truth(self.value(part), part) for part in node.values]
            return all(truths) if isinstance(node.op, ast.And) else any(truths)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.BinOp):
            act = ARITHMETIC[type(node.op)]
            try:
                return _together(act, self.value(node.left), self.value(node.right))
            except (ZeroDivisionError, OverflowError) as error:
                raise _Unanswerable(f"{ast.unparse(node)}: {error}") from None
        if isinstance(node, ast.UnaryOp):
            act_on: Callable[[Value], Value] = (
                operator.not_ if isinstance(node.op, ast.Not) else operator.neg
            )
            found = self.value(node.operand)
            return found.mapped(act_on) if isinstance(found, _Each) else act_on(found)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Name):
            return self._named(node.id)
        return cast(Value, cast(ast.Constant, node).value)

    def truth(self, value: Value | _Each, node: ast.expr) -> bool:
        """Whether it holds, everywhere where it is of many cells."""
        if not isinstance(value, _Each):
            return bool(value)
        fails = tuple(cell for cell, one in value.values.items() if not one)
        if not self._inside:
            text = ast.unparse(node)
            self.numbers.append(
                Number(text=text, value=not fails, cells=len(value.values), where=fails)
            )
        return not fails

    def _compared(self, node: ast.Compare) -> Value | _Each:
        left, found = self.value(node.left), []
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            found.append(_together(COMPARISONS[type(op)], left, right))
            left = right
        whole = found[0]
        for one in found[1:]:
            whole = _together(lambda a, b: bool(a and b), whole, one)
        return whole

    def _called(self, node: ast.Call) -> Value | _Each:
        name, outer = cast(ast.Name, node.func).id, self._chosen
        patterns = {
            cast(str, word.arg): tuple(str(cast(ast.Constant, word.value).value).split(","))
            for word in node.keywords
        }
        self._chosen = [
            one
            for one in outer
            if all(agrees(names, one.axes.get(axis, "")) for axis, names in patterns.items())
        ]
        self._inside += 1
        try:
            if patterns and not self._chosen:
                raise _Unanswerable(f"{ast.unparse(node)} speaks of no cell of this phase")
            found = self.value(node.args[0])
        finally:
            self._chosen, self._inside = outer, self._inside - 1
        if not isinstance(found, _Each):
            raise _Unanswerable(f"{ast.unparse(node)}: {name} is of a metric, not of one value")
        if name == "each":
            return found
        return self._aggregate(name, found, ast.unparse(node))

    def _aggregate(self, name: str, found: _Each, text: str) -> Value:
        values = list(found.values.values())
        if not values and name not in EMPTY_IS_FINE:
            raise _Unanswerable(f"{text}: no cell that succeeded reported it")
        value = AGGREGATES[name](values)
        where = [cell for cell, one in found.values.items() if one == value]
        self.numbers.append(
            Number(
                text=text,
                value=value,
                cells=len(values),
                where=tuple(where) if name in ("min", "max") else (),
            )
        )
        return value

    def _named(self, name: str) -> Value | _Each:
        if name in TRUTHS:
            return TRUTHS[name]
        if name in SHARES:
            done = sum(one.success for one in self._chosen)
            share = done / len(self._chosen) if self._chosen else 1.0
            self.numbers.append(Number(text=name, value=share, cells=len(self._chosen)))
            return share
        succeeded = [one for one in self._chosen if one.success]
        lacking = [one.cell for one in succeeded if name not in one.values]
        if lacking and len(lacking) == len(succeeded):
            known = sorted({key for one in succeeded for key in one.values})
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise _Unanswerable(f"no cell reported {name!r}; {hint}")
        if lacking:
            some = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
            raise _Unanswerable(
                f"{len(lacking)} of {counted(len(succeeded), 'cell')} reported no {name!r} "
                f'({some}); choose some, as each({name}, benchmarks="…")'
            )
        if not self._inside:
            self.numbers.append(
                Number(text=name, value=None, cells=len(succeeded), where=_of_each(name, succeeded))
            )
        return _Each({one.cell: one.values[name] for one in succeeded})


def _together(
    act: Callable[[Value, Value], Value], left: Value | _Each, right: Value | _Each
) -> Value | _Each:
    """One value of two, cell by cell where one of them is of many."""
    if isinstance(left, _Each) and isinstance(right, _Each):
        both = left.values.keys() & right.values.keys()
        if len(both) < max(len(left.values), len(right.values)):
            raise _Unanswerable("two metrics of different cells cannot be held against each other")
        return _Each({cell: act(left.values[cell], right.values[cell]) for cell in left.values})
    if isinstance(left, _Each):
        return left.mapped(lambda value: act(value, cast(Value, right)))
    if isinstance(right, _Each):
        return right.mapped(lambda value: act(left, value))
    return act(left, right)


def _of_each(name: str, cells: Sequence[Reported]) -> tuple[str, ...]:
    return tuple(f"{one.cell} {_short(one.values[name])}" for one in cells)


def _short(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.4g}"
