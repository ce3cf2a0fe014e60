"""A condition over named facts, such as ``ram_available >= 8GB and gpus > 0``: pure.

It is read by Python's own grammar, of which comparisons, ``and``, ``or``, ``not`` and parentheses
are taken and nothing else; nothing in it is ever run. What can be told of it without a machine at
hand is told too: whether any facts at all make it hold.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from .clauses import Atom, Fact, Facts, Joined, Kind, Leaf, Node, Pair, shown
from .contradiction import contradiction

_SIZE = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT])([iI]?)[bB]\b")
_POWERS = {letter: power for power, letter in enumerate("KMGT", start=1)}
_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_LONGEST = 2000  # characters
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class Condition:
    """What must hold of facts. `read` makes one."""

    text: str
    _root: Node
    _kinds: Mapping[str, Kind]

    def __str__(self) -> str:
        return self.text

    def holds(self, facts: Facts) -> bool:
        """Whether it holds. Raises KeyError for a fact that is not given."""
        return self._root.holds(facts)

    def unmet(self, facts: Facts) -> list[str]:
        """What of it does not hold, in words: ``ram_available is 3.1 GB, not >= 5 GB``."""
        found = dict.fromkeys(self._root.leaves()) if not self.holds(facts) else {}
        return [_told(leaf, facts, self._kinds) for leaf in found if not leaf.holds(facts)]

    def names(self) -> set[str]:
        """The facts that it speaks of."""
        found = set()
        for leaf in self._root.leaves():
            found |= {leaf.name, leaf.other} if isinstance(leaf, Pair) else {leaf.name}
        return found

    def contradiction(self, *but: Condition) -> str:
        """Why no facts make it hold and none of `but`; ``""`` where some may."""
        root = Joined(True, (self._root, *(one._root.denied() for one in but)))
        return contradiction(root, self._kinds)


def read(
    text: str, kinds: Mapping[str, Kind], named: Mapping[str, Condition] | None = None
) -> Condition:
    """The condition that `text` says over facts of these kinds; it may call others by their name.

    Raises ValueError with what is wrong and what to write.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} characters; split it")
    try:
        tree = ast.parse(_SIZE.sub(_in_bytes, text.strip()), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"{text!r} is no condition; write such as ram_available >= 8GB and gpus > 0"
        ) from None
    root = _Reader(kinds, named or {}).node(tree.body)
    return Condition(text.strip(), root, kinds)


def _in_bytes(match: re.Match[str]) -> str:
    step = 1024 if match[3] else 1000
    return str(round(float(match[1]) * step ** _POWERS[match[2].upper()]))


class _Reader:
    """Makes nodes of a tree, and refuses what is none."""

    def __init__(self, kinds: Mapping[str, Kind], named: Mapping[str, Condition]) -> None:
        self._kinds = kinds
        self._named = named

    def node(self, tree: ast.expr) -> Node:
        if isinstance(tree, ast.BoolOp):
            parts = tuple(map(self.node, tree.values))
            return Joined(isinstance(tree.op, ast.And), parts)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return self.node(tree.operand).denied()
        if isinstance(tree, ast.Name):
            return self._truth(tree.id)
        if isinstance(tree, ast.Compare):
            sides = [tree.left, *tree.comparators]
            parts = tuple(
                self._comparison(left, self._sign(operator), right)
                for left, operator, right in zip(sides, tree.ops, sides[1:], strict=False)
            )
            return parts[0] if len(parts) == 1 else Joined(True, parts)
        raise ValueError(
            f"{ast.unparse(tree)!r} cannot stand here; a condition is made of comparisons, "
            "and, or, not"
        )

    def _truth(self, name: str) -> Node:
        if name in self._named:
            return self._named[name]._root
        if self._kind(name) != "truth":
            raise ValueError(f"{name} is no yes or no; compare it, such as {name} >= 1")
        return Atom(name, "==", True)

    def _comparison(self, left: ast.expr, sign: str, right: ast.expr) -> Leaf:
        if not isinstance(left, ast.Name) or left.id in _TRUTHS:
            if isinstance(right, ast.Name) and right.id not in _TRUTHS:
                return self._comparison(right, _TURNED[sign], left)
            raise ValueError(f"'{ast.unparse(left)} {sign} {ast.unparse(right)}' names no fact")
        name, kind = left.id, self._kind(left.id)
        if kind in ("truth", "text") and sign not in ("==", "!="):
            raise ValueError(f"{name} is {_WORDS[kind]}; it can only be == or != something")
        if isinstance(right, ast.Name) and right.id not in _TRUTHS:
            if (other := self._kind(right.id)) != kind:
                raise ValueError(f"{name} is {_WORDS[kind]} and {right.id} is {_WORDS[other]}")
            return Pair(name, sign, right.id)
        value = self._value(right)
        wanted: tuple[type, ...] = {"truth": (bool,), "text": (str,)}.get(kind, (int, float))
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "truth"):
            raise ValueError(f"{name} is {_WORDS[kind]}, and {value!r} is not")
        if kind == "truth" and sign == "!=":
            return Atom(name, "==", not value)
        return Atom(name, sign, value)

    def _kind(self, name: str) -> Kind:
        if name not in self._kinds:
            words = [*self._kinds, *self._named]
            near = [one for one in words if one.startswith(f"{name}_")]
            near = near or get_close_matches(name, words, n=2)
            known = ", ".join(self._kinds)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {known}"
            raise ValueError(f"no fact {name!r}; {hint}")
        return self._kinds[name]

    @staticmethod
    def _sign(operator: ast.cmpop) -> str:
        if type(operator) not in _SIGNS:
            raise ValueError("facts are compared by <, <=, >, >=, == and != alone")
        return _SIGNS[type(operator)]

    @staticmethod
    def _value(tree: ast.expr) -> Fact:
        if isinstance(tree, ast.Name):
            return _TRUTHS[tree.id]
        if isinstance(tree, ast.Constant) and isinstance(tree.value, (bool, int, float, str)):
            return tree.value
        raise ValueError(f"{ast.unparse(tree)!r} is no number, size, text, true or false")


_WORDS: Mapping[Kind, str] = {
    "size": "a size",
    "count": "a count",
    "number": "a number",
    "truth": "a yes or no",
    "text": "text",
}


def _told(leaf: Leaf, facts: Facts, kinds: Mapping[str, Kind]) -> str:
    kind = kinds[leaf.name]
    has = shown(facts[leaf.name], kind)
    if isinstance(leaf, Pair):
        return f"{leaf.name} is {has}, not {leaf.sign} {leaf.other} ({facts[leaf.other]})"
    if kind == "truth":
        return f"{leaf.name} is {has}"
    return f"{leaf.name} is {has}, not {leaf.sign} {shown(leaf.value, kind)}"
