"""The expression language of gates and eligibility rules; docs/expressions.md describes it.

Python's parser reads an expression and `Evaluator` walks the tree; nothing is executed as Python. A
`Vocabulary` lists the names and functions that an expression may use.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from benchfleet.hints import hint

from .truths import TRUTHS, confusion

Value: TypeAlias = "float | int | bool | str"
# A metric is a number or truth of each cell; truths are a truth of each.
Kind = Literal["number", "truth", "text", "metric", "truths"]

COMPARISONS: Mapping[type[ast.cmpop], tuple[str, Callable[[Value, Value], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MAX_CHARACTERS = 2000
_MAX_NODES = 400  # of the tree; this bounds its depth, too
_ASSIGNS = re.compile(r"[^<>=!]=[^=]")
_SIZE = re.compile(
    r"""('[^']*'|"[^"]*")|(?<![\w.])([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT])([iI]?)[bB]\b"""
)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The names and functions of one use of the language."""

    noun: str  # what a name stands for
    example: str  # a condition, for messages
    names: Mapping[str, Kind]
    any_name: bool = False  # any other name is a metric
    functions: Mapping[str, Kind] = field(default_factory=dict)  # of one metric; what each returns
    axes: Collection[str] = ()  # keywords of functions, which choose cells


def parse(
    text: str, vocabulary: Vocabulary, named: Mapping[str, ast.expr] | None = None
) -> ast.expr:
    """The tree of a condition, in which the names of other conditions stand for their trees.

    Raises ValueError with what is wrong and what to write.
    """
    too_long = ValueError("is too long; split it or simplify it")
    if len(text) > _MAX_CHARACTERS:
        raise too_long
    try:
        tree = ast.parse(_SIZE.sub(_in_bytes, text.strip()), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        message = f'{text!r} cannot be read; write a condition such as "{vocabulary.example}"'
        if _ASSIGNS.search(text):
            message += "; write == to compare"
        raise ValueError(message) from None
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        raise too_long
    root = cast(ast.Expression, _Inliner(named or {}).visit(tree)).body
    _check_condition(root, vocabulary)
    return root


def _in_bytes(match: re.Match[str]) -> str:
    """A size as a number; quoted text stays."""
    if match[1] is not None:
        return match[1]
    step = 1024 if match[4] else 1000
    return str(round(float(match[2]) * step ** ("KMGT".index(match[3].upper()) + 1)))


class _Inliner(ast.NodeTransformer):
    """Puts trees in the place of their names."""

    def __init__(self, named: Mapping[str, ast.expr]) -> None:
        self._named = named

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._named.get(node.id, node)


def _check_condition(node: ast.expr, vocabulary: Vocabulary) -> Kind:
    """The kind of a part that is to be true or false. Raises ValueError."""
    kind = _check(node, vocabulary)
    if kind in ("truth", "truths") or (kind == "metric" and not isinstance(node, ast.BinOp)):
        return kind
    text = ast.unparse(node)
    raise ValueError(f'{text!r} is not a condition; compare it, as in "{text} >= 1"')


def _check(node: ast.expr, vocabulary: Vocabulary) -> Kind:
    """The kind of a part. Raises ValueError for what the language does not have."""
    if isinstance(node, ast.Name):
        return _check_name(node.id, vocabulary)
    if isinstance(node, ast.Constant):
        return _check_constant(node)
    if isinstance(node, ast.Compare):
        return _check_comparison(node, vocabulary)
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            _check_condition(part, vocabulary)
        return "truth"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _truth_kind(_check_condition(node.operand, vocabulary))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _check_numbers([node.operand], vocabulary)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _check_numbers([node.left, node.right], vocabulary)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _check_call(node, node.func.id, vocabulary)
    allowed = ", ".join([f"{vocabulary.noun}s", *vocabulary.functions])
    raise ValueError(
        f"{ast.unparse(node)!r} is not allowed here; use < <= == != >= >, and, or, not, + - * /, "
        f"numbers, sizes, true, false, {allowed}"
    )


def _check_name(name: str, vocabulary: Vocabulary) -> Kind:
    if name in vocabulary.names:
        return vocabulary.names[name]
    if name in TRUTHS:
        return "truth"
    if vocabulary.any_name:
        return "metric"
    raise _unknown(vocabulary.noun, name, vocabulary.names)


def _unknown(what: str, name: str, known_names: Collection[str]) -> ValueError:
    longer = [repr(one) for one in known_names if one.startswith(f"{name}_")]
    instead = f"did you mean {' or '.join(longer)}?" if longer else hint(name, known_names)
    return ValueError(f"unknown {what} {name!r}; {instead}")


def _check_constant(node: ast.Constant) -> Kind:
    if isinstance(node.value, bool):
        return "truth"
    if isinstance(node.value, str):
        return "text"
    if isinstance(node.value, (int, float)) and abs(node.value) < math.inf:
        return "number"
    raise ValueError(f"{ast.unparse(node)} is not a finite number")


def _check_comparison(node: ast.Compare, vocabulary: Vocabulary) -> Kind:
    kinds = [_check(side, vocabulary) for side in (node.left, *node.comparators)]
    text = ast.unparse(node)
    if any(type(op) not in COMPARISONS for op in node.ops):
        raise ValueError(f"{text!r} is not allowed here; compare by < <= == != >= >")
    if "text" in kinds and set(kinds) != {"text"}:
        raise ValueError(f"{text!r} compares text with a number, or with true or false")
    if "text" in kinds and any(not isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
        raise ValueError(f"{text!r} orders text; compare it by == or !=")
    if problem := confusion(node, kinds):
        raise ValueError(problem)
    return _truth_kind(*kinds)


def _truth_kind(*kinds: Kind) -> Kind:
    """The kind of a condition over parts of these kinds."""
    return "truths" if {"metric", "truths"} & {*kinds} else "truth"


def _check_numbers(operands: Sequence[ast.expr], vocabulary: Vocabulary) -> Kind:
    kinds = [_check(one, vocabulary) for one in operands]
    for node, kind in zip(operands, kinds, strict=True):
        if kind in ("text", "truth"):
            raise ValueError(f"{ast.unparse(node)} is {kind}; + - * / take numbers")
    return "metric" if {"metric", "truths"} & {*kinds} else "number"


def _check_call(node: ast.Call, name: str, vocabulary: Vocabulary) -> Kind:
    if name not in vocabulary.functions:
        raise _unknown("function", name, vocabulary.functions)
    kind = _check(node.args[0], vocabulary) if len(node.args) == 1 else "text"
    if kind not in ("metric", "truths"):
        raise ValueError(f"{name} takes exactly one metric, as in {name}(score)")
    for keyword in node.keywords:
        axis, value = keyword.arg or "**", keyword.value
        if axis not in vocabulary.axes:
            raise _unknown("axis", axis, vocabulary.axes)
        if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            raise ValueError(f'{axis} takes a name or glob in quotes, as in {axis}="dense"')
    result = vocabulary.functions[name]
    return kind if result == "metric" else result


@dataclass(frozen=True)
class PerCell:
    """A value for each of some cells."""

    values: Mapping[str, Value]  # by the cell's path


class NoValue(Exception):
    """An expression has no value here; the message says why."""


class Evaluator:
    """Computes a parsed expression; a subclass looks names up, and calls functions."""

    short_circuit = True  # False: all parts of and/or are computed

    def name(self, name: str) -> Value | PerCell:
        """The value of a name."""
        raise NotImplementedError

    def call(self, node: ast.Call, name: str) -> Value | PerCell:
        """The value of a call."""
        raise NotImplementedError

    def check_truth(self, value: Value | PerCell, node: ast.expr) -> None:
        """Raises NoValue where the value of this node is to be true or false, and is not."""

    def compare(self, op: ast.cmpop, lhs: Value, rhs: Value) -> bool:
        """Whether a comparison of two values holds. Raises ValueError where it makes no sense."""
        return COMPARISONS[type(op)][1](lhs, rhs)

    def truth(self, value: Value | PerCell, node: ast.expr) -> bool:
        """Whether the value of this node holds, in every cell where there are several."""
        return all(value.values.values()) if isinstance(value, PerCell) else bool(value)

    def value(self, node: ast.expr) -> Value | PerCell:
        """The value of any part. Raises NoValue."""
        if isinstance(node, ast.BoolOp):
            parts = (self.truth(self.value(part), part) for part in node.values)
            truths = parts if self.short_circuit else list(parts)
            return all(truths) if isinstance(node.op, ast.And) else any(truths)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.BinOp):
            act = cast(Callable[[Value, Value], Value], _ARITHMETIC[type(node.op)])
            try:
                return _combine(act, self.value(node.left), self.value(node.right))
            except (ZeroDivisionError, OverflowError) as error:
                raise NoValue(f"{ast.unparse(node)}: {error}") from None
        if isinstance(node, ast.UnaryOp):
            operand, is_not = self.value(node.operand), isinstance(node.op, ast.Not)
            if is_not:
                self.check_truth(operand, node.operand)
            negate: Callable[[Any], Value] = operator.not_ if is_not else operator.neg
            return _combine(lambda value, _: negate(value), operand, 0)
        if isinstance(node, ast.Call):
            return self.call(node, cast(ast.Name, node.func).id)
        if isinstance(node, ast.Name):
            return TRUTHS[node.id] if node.id in TRUTHS else self.name(node.id)
        return cast(Value, cast(ast.Constant, node).value)

    def _comparison(self, node: ast.Compare) -> Value | PerCell:
        """A chain holds where each of its comparisons does."""
        sides: Sequence[Value | PerCell] = [*map(self.value, (node.left, *node.comparators))]
        whole: Value | PerCell = True
        for index, op in enumerate(node.ops):
            try:
                one = _combine(partial(self.compare, op), sides[index], sides[index + 1])
            except (ValueError, OverflowError) as error:
                raise NoValue(f"{ast.unparse(node)}: {error}") from None
            whole = _combine(lambda a, b: bool(a and b), whole, one)
        return whole


def _combine(
    act: Callable[[Value, Value], Value], lhs: Value | PerCell, rhs: Value | PerCell
) -> Value | PerCell:
    """A function of two values, cell by cell where one of them is of several cells."""
    if isinstance(lhs, PerCell) and isinstance(rhs, PerCell):
        if lhs.values.keys() != rhs.values.keys():
            raise NoValue("two metrics of different cells cannot be compared or combined")
        return PerCell({cell: act(lhs.values[cell], rhs.values[cell]) for cell in lhs.values})
    if isinstance(lhs, PerCell):
        return PerCell({cell: act(one, cast(Value, rhs)) for cell, one in lhs.values.items()})
    if isinstance(rhs, PerCell):
        return PerCell({cell: act(lhs, one) for cell, one in rhs.values.items()})
    return act(lhs, rhs)
