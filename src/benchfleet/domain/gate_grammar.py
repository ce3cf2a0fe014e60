"""The grammar of a gate's expression: what one can say, and what is wrong with a text."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches

from .matrix import AXES

Value = float | bool
SHARES = ("completeness", "complete")  # of cells that succeeded
TRUTHS = {"true": True, "True": True, "false": False, "False": False}
_LONGEST = 500  # characters


def _median(values: Sequence[Value]) -> float:
    from statistics import median  # takes longer to load than all that is here

    return float(median(values))


AGGREGATES: Mapping[str, Callable[[Sequence[Value]], Value]] = {
    "min": min,
    "max": max,
    "mean": lambda values: math.fsum(values) / len(values),
    "median": _median,
    "sum": lambda values: math.fsum(values),
    "count": len,
    "all": all,
    "any": any,
}
FUNCTIONS = (*AGGREGATES, "each")
EMPTY_IS_FINE = ("sum", "count", "all", "any")
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
ARITHMETIC: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def check(text: str) -> str:
    """What is wrong with the expression; ``""`` where nothing is."""
    if len(text) > _LONGEST:
        return f"is longer than {_LONGEST} characters"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return f'{text!r} cannot be read; write a condition such as "min(score) >= 0.9"'
    for problem in _problems(tree):
        return problem
    if not _is_condition(tree):
        return f'{text!r} is a value, no condition; write one such as "{text.strip()} >= 0.9"'
    return ""


def _is_condition(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("all", "any", "each")
    if isinstance(node, ast.Name):
        return node.id not in SHARES
    return isinstance(node, (ast.Compare, ast.BoolOp)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _problems(node: ast.expr) -> Iterable[str]:
    """What the grammar does not have, from the left."""
    inside: list[ast.expr] = []
    if isinstance(node, ast.BoolOp):
        inside = node.values
    elif isinstance(node, ast.Compare) and all(type(op) in COMPARISONS for op in node.ops):
        inside = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        inside = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        inside = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _call_problems(node, node.func.id)
        inside = node.args
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        if not abs(node.value) < math.inf:
            yield f"{ast.unparse(node)} is no finite number"
    elif not isinstance(node, ast.Name):
        yield (
            f"{ast.unparse(node)!r} is nothing that a gate can say; it has comparisons, and, or, "
            f"not, + - * /, numbers, true, false, metrics, {', '.join(FUNCTIONS)}"
        )
    for part in inside:
        yield from _problems(part)


def _call_problems(node: ast.Call, name: str) -> Iterable[str]:
    if name not in FUNCTIONS:
        near = get_close_matches(name, FUNCTIONS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FUNCTIONS)}"
        yield f"no function {name!r}; {hint}"
    elif len(node.args) != 1:
        yield f"{name} takes one metric, as in {name}(score)"
    for keyword in node.keywords:
        if keyword.arg not in AXES:
            yield f"{ast.unparse(keyword)!r} chooses by no axis; there are {', '.join(AXES)}"
        elif not (isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)):
            yield f'{keyword.arg} is chosen by a name or glob in quotes, as {keyword.arg}="dense"'
