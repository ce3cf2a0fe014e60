"""A condition over named facts, such as ``ram_available >= 8GB and gpus > 0``: pure.

It is read by Python's own grammar, of which comparisons, ``and``, ``or``, ``not`` and parentheses
are taken and nothing else; nothing in it is ever run. What can be told of it without a machine at
hand is told too: whether any facts at all make it hold.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from math import ceil, floor, inf
from typing import Literal, TypeAlias

Kind = Literal["size", "count", "number", "truth", "text"]  # sizes in bytes; no fact is below 0
Fact: TypeAlias = "float | int | bool | str"
Facts = Mapping[str, Fact]

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
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MOST = 4096  # conjunctions; a condition of more is taken to be possible
_LONGEST = 2000  # characters
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class _Atom:
    """``name sign value``; of a truth ``name == True``."""

    name: str
    sign: str
    value: Fact

    def holds(self, facts: Facts) -> bool:
        return _compared(facts[self.name], self.sign, self.value)

    def denied(self) -> _Atom:
        return _Atom(self.name, _OPPOSITE[self.sign], self.value)


@dataclass(frozen=True)
class _Pair:
    """``name sign other``: two facts of one kind."""

    name: str
    sign: str
    other: str

    def holds(self, facts: Facts) -> bool:
        return _compared(facts[self.name], self.sign, facts[self.other])

    def denied(self) -> _Pair:
        return _Pair(self.name, _OPPOSITE[self.sign], self.other)


@dataclass(frozen=True)
class _Joined:
    """Parts of which all hold, or any."""

    every: bool
    parts: tuple[_Node, ...]


_Leaf: TypeAlias = "_Atom | _Pair"
_Node: TypeAlias = "_Atom | _Pair | _Joined"


@dataclass(frozen=True)
class Condition:
    """What must hold of facts. `read` makes one."""

    text: str
    _root: _Node
    _kinds: Mapping[str, Kind]

    def __str__(self) -> str:
        return self.text

    def holds(self, facts: Facts) -> bool:
        """Whether it holds. Raises KeyError for a fact that is not given."""
        return _holds(self._root, facts)

    def unmet(self, facts: Facts) -> list[str]:
        """What of it does not hold, in words: ``ram_available is 3.1 GB, not >= 5 GB``."""
        found = dict.fromkeys(_leaves(self._root)) if not self.holds(facts) else {}
        return [_told(leaf, facts, self._kinds) for leaf in found if not leaf.holds(facts)]

    def names(self) -> set[str]:
        """The facts that it speaks of."""
        found = set()
        for leaf in _leaves(self._root):
            found |= {leaf.name, leaf.other} if isinstance(leaf, _Pair) else {leaf.name}
        return found

    def contradiction(self, *but: Condition) -> str:
        """Why no facts make it hold and none of `but`; ``""`` where some may."""
        root = _Joined(True, (self._root, *(_denied(one._root) for one in but)))
        why = ""
        for count, leaves in enumerate(_conjunctions(root)):
            found = _clash(leaves, self._kinds)
            if not found or count >= _MOST:
                return ""
            why = why or found
        return why


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

    def node(self, tree: ast.expr) -> _Node:
        if isinstance(tree, ast.BoolOp):
            parts = tuple(map(self.node, tree.values))
            return _Joined(isinstance(tree.op, ast.And), parts)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return _denied(self.node(tree.operand))
        if isinstance(tree, ast.Name):
            return self._truth(tree.id)
        if isinstance(tree, ast.Compare):
            sides = [tree.left, *tree.comparators]
            parts = tuple(
                self._comparison(left, self._sign(operator), right)
                for left, operator, right in zip(sides, tree.ops, sides[1:], strict=False)
            )
            return parts[0] if len(parts) == 1 else _Joined(True, parts)
        raise ValueError(
            f"{ast.unparse(tree)!r} cannot stand here; a condition is made of comparisons, "
            "and, or, not"
        )

    def _truth(self, name: str) -> _Node:
        if name in self._named:
            return self._named[name]._root
        if self._kind(name) != "truth":
            raise ValueError(f"{name} is no yes or no; compare it, such as {name} >= 1")
        return _Atom(name, "==", True)

    def _comparison(self, left: ast.expr, sign: str, right: ast.expr) -> _Leaf:
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
            return _Pair(name, sign, right.id)
        value = self._value(right)
        wanted: tuple[type, ...] = {"truth": (bool,), "text": (str,)}.get(kind, (int, float))
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "truth"):
            raise ValueError(f"{name} is {_WORDS[kind]}, and {value!r} is not")
        if kind == "truth" and sign == "!=":
            return _Atom(name, "==", not value)
        return _Atom(name, sign, value)

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


def _compared(left: Fact, sign: str, right: Fact) -> bool:
    if sign in ("==", "!="):
        return (left == right) is (sign == "==")
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError(f"{left!r} and {right!r} have no order")
    if sign in ("<", "<="):
        return left < right or (sign == "<=" and left == right)
    return left > right or (sign == ">=" and left == right)


def _holds(node: _Node, facts: Facts) -> bool:
    if isinstance(node, _Joined):
        found = (_holds(part, facts) for part in node.parts)
        return all(found) if node.every else any(found)
    return node.holds(facts)


def _denied(node: _Node) -> _Node:
    if isinstance(node, _Joined):
        return _Joined(not node.every, tuple(map(_denied, node.parts)))
    if isinstance(node, _Atom) and isinstance(node.value, bool):
        return _Atom(node.name, "==", not node.value)
    return node.denied()


def _leaves(node: _Node) -> Iterator[_Leaf]:
    if isinstance(node, _Joined):
        for part in node.parts:
            yield from _leaves(part)
    else:
        yield node


def _conjunctions(node: _Node) -> Iterator[tuple[_Leaf, ...]]:
    """Each way to make it hold: leaves that then hold together."""
    if not isinstance(node, _Joined):
        yield (node,)
    elif not node.every:
        for part in node.parts:
            yield from _conjunctions(part)
    else:
        ways = [tuple(_first(_conjunctions(part))) for part in node.parts]
        for chosen in product(*ways):
            yield tuple(leaf for leaves in chosen for leaf in leaves)


def _first(ways: Iterator[tuple[_Leaf, ...]]) -> Iterator[tuple[_Leaf, ...]]:
    for _, way in zip(range(_MOST + 1), ways, strict=False):
        yield way


def _clash(leaves: tuple[_Leaf, ...], kinds: Mapping[str, Kind]) -> str:
    """Why these cannot hold together; ``""`` where they can."""
    by_name: dict[str, list[_Atom]] = {}
    for leaf in leaves:
        if isinstance(leaf, _Atom):
            by_name.setdefault(leaf.name, []).append(leaf)
    for name, atoms in by_name.items():
        kind = kinds[name]
        found = _bounds_clash(atoms, kind) if kind not in ("truth", "text") else _same_clash(atoms)
        if found:
            said = " and ".join(
                dict.fromkeys(f"{atom.sign} {_shown(atom.value, kind)}" for atom in atoms)
            )
            return f"{name} is never {said}"
    return ""


def _same_clash(atoms: list[_Atom]) -> bool:
    equal = {atom.value for atom in atoms if atom.sign == "=="}
    barred = {atom.value for atom in atoms if atom.sign == "!="}
    return len(equal) > 1 or not equal.isdisjoint(barred)


def _bounds_clash(atoms: list[_Atom], kind: Kind) -> bool:
    low, high, low_open, high_open = 0.0, inf, False, False
    barred = {atom.value for atom in atoms if atom.sign == "!="}
    for atom in atoms:
        value = float(atom.value)
        if atom.sign in (">", ">=", "=="):
            least, is_open = value, atom.sign == ">"
            if kind in ("count", "size"):  # whole numbers
                least, is_open = (floor(value) + 1 if is_open else ceil(value)), False
            low, low_open = max((low, low_open), (least, is_open))
        if atom.sign in ("<", "<=", "=="):
            most, is_open = value, atom.sign == "<"
            if kind in ("count", "size"):
                most, is_open = (ceil(value) - 1 if is_open else floor(value)), False
            if most < high or (most == high and is_open):
                high, high_open = most, is_open
    return low > high or (low == high and (low_open or high_open or low in barred))


def _told(leaf: _Leaf, facts: Facts, kinds: Mapping[str, Kind]) -> str:
    kind = kinds[leaf.name]
    has = _shown(facts[leaf.name], kind)
    if isinstance(leaf, _Pair):
        return f"{leaf.name} is {has}, not {leaf.sign} {leaf.other} ({facts[leaf.other]})"
    if kind == "truth":
        return f"{leaf.name} is {has}"
    return f"{leaf.name} is {has}, not {leaf.sign} {_shown(leaf.value, kind)}"


def _shown(value: Fact, kind: Kind) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "size" and not isinstance(value, str):
        return f"{value / 1e9:.3g} GB"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
