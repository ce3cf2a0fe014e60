"""What a condition is made of: comparisons of named facts, joined by and and or."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind = Literal["size", "count", "number", "truth", "text"]  # sizes in bytes; no fact is below 0
Fact: TypeAlias = "float | int | bool | str"
Facts = Mapping[str, Fact]

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Atom:
    """``name sign value``; of a truth ``name == True``."""

    name: str
    sign: str
    value: Fact

    def holds(self, facts: Facts) -> bool:
        return _compared(facts[self.name], self.sign, self.value)

    def denied(self) -> Atom:
        if isinstance(self.value, bool):
            return Atom(self.name, "==", not self.value)
        return Atom(self.name, _OPPOSITE[self.sign], self.value)

    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(frozen=True)
class Pair:
    """``name sign other``: two facts of one kind."""

    name: str
    sign: str
    other: str

    def holds(self, facts: Facts) -> bool:
        return _compared(facts[self.name], self.sign, facts[self.other])

    def denied(self) -> Pair:
        return Pair(self.name, _OPPOSITE[self.sign], self.other)

    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(frozen=True)
class Joined:
    """Parts of which all hold, or any."""

    every: bool
    parts: tuple[Node, ...]

    def holds(self, facts: Facts) -> bool:
        found = (part.holds(facts) for part in self.parts)
        return all(found) if self.every else any(found)

    def denied(self) -> Joined:
        return Joined(not self.every, tuple(part.denied() for part in self.parts))

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()


Leaf: TypeAlias = "Atom | Pair"
Node: TypeAlias = "Atom | Pair | Joined"


def _compared(left: Fact, sign: str, right: Fact) -> bool:
    if sign in ("==", "!="):
        return (left == right) is (sign == "==")
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError(f"{left!r} and {right!r} have no order")
    if sign in ("<", "<="):
        return left < right or (sign == "<=" and left == right)
    return left > right or (sign == ">=" and left == right)


def shown(value: Fact, kind: Kind) -> str:
    """A fact, as people read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "size" and not isinstance(value, str):
        return f"{value / 1e9:.3g} GB"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
