"""Truths and numbers in conditions: where one stands for the other, and what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Sequence

TRUTHS = {"true": True, "True": True, "false": False, "False": False}
COLLAPSING = ("all", "any")  # functions of one truth for each cell
_TRUTH_KINDS = ("truth", "truths")
_LIMIT = ast.Constant(0.9)  # of an example


def confusion(node: ast.Compare, kinds: Sequence[str]) -> str:
    """What is wrong where a comparison has a number beside a truth, or orders truths; ``""``
    otherwise. `kinds` are those of its sides."""
    for index, op in enumerate(node.ops):
        pair = kinds[index : index + 2]
        if not {*pair} & {*_TRUTH_KINDS}:
            continue
        if "number" in pair or not isinstance(op, (ast.Eq, ast.NotEq)):
            text = ast.unparse(node)
            return f"{text!r} takes true or false for a number; write {_instead(node, kinds)}"
    return ""


def is_truth(value: float | str) -> bool:
    """Whether a value counts as true or false: scripts may report 1 and 0."""
    return value in (0, 1)


def subject(node: ast.expr) -> ast.expr:
    """What must be true or false: in `all` and `any`, what they are of."""
    return node.args[0] if _collapses(node) and isinstance(node, ast.Call) else node


def compared(node: ast.expr) -> str:
    """A condition over a number that stands where a truth is to be."""
    comparison = ast.Compare(left=subject(node), ops=[ast.GtE()], comparators=[_LIMIT])
    return ast.unparse(_inside(node, comparison))


def _instead(node: ast.Compare, kinds: Sequence[str]) -> str:
    sides = [node.left, *node.comparators]
    truths = [index for index, kind in enumerate(kinds) if kind in _TRUTH_KINDS]
    first = sides[truths[0]]
    literal = _literal(first)
    replacement = subject(first) if literal is None else ast.Constant(int(literal))
    if len(truths) > 1 or replacement is first or _is_condition(replacement):
        return f"{ast.unparse(first)!r} alone, or with not before it"
    sides[truths[0]] = replacement
    comparison = ast.Compare(left=sides[0], ops=node.ops, comparators=sides[1:])
    return repr(ast.unparse(_inside(first, comparison)))


def _inside(node: ast.expr, comparison: ast.Compare) -> ast.expr:
    """The same call of `all` or `any`, of a comparison; the comparison where it is none."""
    if isinstance(node, ast.Call) and _collapses(node):
        return ast.Call(func=node.func, args=[comparison], keywords=node.keywords)
    return comparison


def _collapses(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in COLLAPSING
    )


def _is_condition(node: ast.expr) -> bool:
    """Whether it is a truth by its form."""
    if isinstance(node, ast.Call):
        return _collapses(node) or _is_condition(node.args[0])
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, (ast.Compare, ast.BoolOp))


def _literal(node: ast.expr) -> bool | None:
    if isinstance(node, ast.Name):
        return TRUTHS.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None
