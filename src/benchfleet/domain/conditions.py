"""Conditions over the facts of a machine, such as ``ram_available >= 8GB and gpus > 0``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import ceil, floor, prod
from typing import Literal, TypeAlias, cast

from . import expression
from .expression import COMPARISONS, Evaluator, NoValue, Value, Vocabulary

Kind = Literal["size", "count", "number", "truth", "text"]  # sizes in bytes; no fact is below 0
Fact: TypeAlias = Value
Facts = Mapping[str, Fact]
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MAX_SAMPLES = 20_000  # sets of facts tried for one condition


@dataclass(frozen=True)
class Condition:
    """What must hold of facts. `parse_condition` makes one."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    kinds: Mapping[str, Kind] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def holds(self, facts: Facts) -> bool:
        """Whether it holds. Raises KeyError for a fact that is not given."""
        return _holds(self.tree, facts)

    def unmet(self, facts: Facts) -> list[str]:
        """What of it does not hold, in words: ``ram_available is 3.1 GB, not >= 5 GB``."""
        if self.holds(facts):
            return []
        return list(dict.fromkeys(_unmet(self.tree, facts, self.kinds)))

    def names(self) -> set[str]:
        """The facts that it speaks of."""
        return set(_facts_in(self.tree, self.kinds))

    def is_possible(self, *excluded: Condition) -> bool:
        """Whether some facts make it hold and none of `excluded`; also where this is undecided.

        Every fact takes each value at which a comparison may change, in all combinations.
        """
        trees = [self.tree, *(one.tree for one in excluded)]
        values = _critical_values(trees, self.kinds)
        if values is None or prod(map(len, values.values())) > _MAX_SAMPLES:
            return True
        samples = (dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))
        return any(
            self.holds(facts) and not any(one.holds(facts) for one in excluded) for facts in samples
        )


def parse_condition(
    text: str, kinds: Mapping[str, Kind], named: Mapping[str, Condition] | None = None
) -> Condition:
    """The condition that `text` says over facts of these kinds; it may name other conditions.

    Raises ValueError with what is wrong and what to write.
    """
    trees = {name: one.tree for name, one in (named or {}).items()}
    vocabulary = Vocabulary(
        noun="fact",
        example="ram_available >= 8GB and gpus > 0",
        names={
            **{
                name: kind if kind in ("truth", "text") else "number"
                for name, kind in kinds.items()
            },
            **dict.fromkeys(trees, "truth"),
        },
    )
    return Condition(text.strip(), expression.parse(text, vocabulary, trees), kinds)


class _OfFacts(Evaluator):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def name(self, name: str) -> Value:
        return self._facts[name]


def _holds(node: ast.expr, facts: Facts) -> bool:
    try:
        return bool(_OfFacts(facts).value(node))
    except NoValue:
        return False


def _unmet(
    node: ast.expr, facts: Facts, kinds: Mapping[str, Kind], expected: bool = True
) -> Iterator[str]:
    """The comparisons and truths that are not as wanted."""
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            yield from _unmet(part, facts, kinds, expected)
    elif isinstance(node, ast.UnaryOp):
        yield from _unmet(node.operand, facts, kinds, not expected)
    elif isinstance(node, ast.Compare):
        for one in _pairs(node):
            if _holds(one, facts) is not expected:
                yield _comparison_text(one, facts, kinds, expected)
    elif _holds(node, facts) is not expected:
        yield f"{ast.unparse(node)} is {format_fact(not expected, 'truth')}"


def _pairs(node: ast.Compare) -> Iterator[ast.Compare]:
    """The single comparisons of a chain."""
    sides = [node.left, *node.comparators]
    for index, op in enumerate(node.ops):
        yield ast.Compare(left=sides[index], ops=[op], comparators=[sides[index + 1]])


def _comparison_text(
    node: ast.Compare, facts: Facts, kinds: Mapping[str, Kind], expected: bool
) -> str:
    """``ram is 8 GB, not >= 12 GB``"""
    evaluator = _OfFacts(facts)
    lhs, sign, rhs = node.left, COMPARISONS[type(node.ops[0])][0], node.comparators[0]
    if not _facts_in(lhs, kinds):
        lhs, rhs = rhs, lhs
        sign = sign.translate(str.maketrans("<>", "><"))
    names = _facts_in(node, kinds)
    kind: Kind = kinds[names[0]] if names else "number"
    try:
        has, limit = (format_fact(cast(Fact, evaluator.value(side)), kind) for side in (lhs, rhs))
    except NoValue as error:
        return str(error)
    name = f"{ast.unparse(rhs)}, " if _facts_in(rhs, kinds) else ""
    return f"{ast.unparse(lhs)} is {has}, not {sign if expected else _OPPOSITE[sign]} {name}{limit}"


def format_fact(value: Fact, kind: Kind) -> str:
    """A fact, as people read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "size" and not isinstance(value, str):
        return f"{value / 1e9:.3g} GB"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _facts_in(node: ast.AST, kinds: Mapping[str, Kind]) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in kinds]


def _critical_values(
    trees: Sequence[ast.expr], kinds: Mapping[str, Kind]
) -> dict[str, list[Fact]] | None:
    """For each fact the values to try; None where a comparison is not of one fact with a value."""
    limits: dict[str, set[Fact]] = {}
    for tree in trees:
        for name in _facts_in(tree, kinds):
            limits.setdefault(name, set())
        chains = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
        for pair in (pair for chain in chains for pair in _pairs(chain)):
            sides = [pair.left, pair.comparators[0]]
            own = [side for side in sides if isinstance(side, ast.Name) and side.id in kinds]
            values = [side for side in sides if not _facts_in(side, kinds)]
            if len(own) + len(values) < 2 or len(own) > 1:
                return None
            if own:
                try:
                    limits[own[0].id].add(cast(Fact, Evaluator().value(values[0])))
                except NoValue:
                    return None
    return {name: _around(values, kinds[name]) for name, values in limits.items()}


def _around(limits: set[Fact], kind: Kind) -> list[Fact]:
    """Each limit with a value on either side; no number is below 0."""
    if kind == "truth":
        return [True, False]
    if kind == "text":
        return [*limits, "\0"]
    numbers = sorted({0.0, *(float(one) for one in limits)})
    if kind == "number":
        between = [(low + high) / 2 for low, high in pairwise(numbers)]
        samples = {*numbers, *between, numbers[-1] + 1}
    else:
        samples = {
            value for one in numbers for value in (ceil(one) - 1, floor(one), floor(one) + 1)
        }
    return sorted((one for one in samples if one >= 0), reverse=True)
