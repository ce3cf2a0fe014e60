"""Whether any facts at all make clauses hold together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import ceil, floor, inf

from .clauses import Atom, Joined, Kind, Leaf, Node, shown

_MOST = 4096  # conjunctions; a condition of more is taken to be possible


def contradiction(root: Node, kinds: Mapping[str, Kind]) -> str:
    """Why no facts make it hold; ``""`` where some may."""
    why = ""
    for count, leaves in enumerate(_conjunctions(root)):
        found = _clash(leaves, kinds)
        if not found or count >= _MOST:
            return ""
        why = why or found
    return why


def _conjunctions(node: Node) -> Iterator[tuple[Leaf, ...]]:
    """Each way to make it hold: leaves that then hold together."""
    if not isinstance(node, Joined):
        yield (node,)
    elif not node.every:
        for part in node.parts:
            yield from _conjunctions(part)
    else:
        ways = [tuple(_first(_conjunctions(part))) for part in node.parts]
        for chosen in product(*ways):
            yield tuple(leaf for leaves in chosen for leaf in leaves)


def _first(ways: Iterator[tuple[Leaf, ...]]) -> Iterator[tuple[Leaf, ...]]:
    for _, way in zip(range(_MOST + 1), ways, strict=False):
        yield way


def _clash(leaves: tuple[Leaf, ...], kinds: Mapping[str, Kind]) -> str:
    """Why these cannot hold together; ``""`` where they can."""
    by_name: dict[str, list[Atom]] = {}
    for leaf in leaves:
        if isinstance(leaf, Atom):
            by_name.setdefault(leaf.name, []).append(leaf)
    for name, atoms in by_name.items():
        kind = kinds[name]
        found = _bounds_clash(atoms, kind) if kind not in ("truth", "text") else _same_clash(atoms)
        if found:
            said = " and ".join(
                dict.fromkeys(f"{atom.sign} {shown(atom.value, kind)}" for atom in atoms)
            )
            return f"{name} is never {said}"
    return ""


def _same_clash(atoms: list[Atom]) -> bool:
    equal = {atom.value for atom in atoms if atom.sign == "=="}
    barred = {atom.value for atom in atoms if atom.sign == "!="}
    return len(equal) > 1 or not equal.isdisjoint(barred)


def _bounds_clash(atoms: list[Atom], kind: Kind) -> bool:
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
