"""The gate of a phase: a condition over what its cells reported, and the numbers behind it.

A bare metric stands for its values in all cells that succeeded; a comparison of it holds where it
holds in each of them. ``min max mean median sum count all any`` make one value of many, and
``each`` only chooses; all of them take the axes of a rule, as in ``mean(score, configs="dense")``.
``completeness`` is the share of cells that succeeded.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from benchfleet.domain.humanize import counted
from benchfleet.hints import hint

from . import expression
from .cell import Cell
from .expression import Evaluator, NoValue, PerCell, Value, Vocabulary
from .matrix import AXES
from .name_patterns import matches
from .sample_end import SAME_ANSWER, SCORE_STOP, SHARES
from .truths import COLLAPSING, TRUTHS, compared, is_truth, subject

# Of every benchmark; see `summarise` of the results.
STANDARD_METRICS = frozenset(
    (
        *("score", "overall_score", "samples", "stderr", "prompt_tokens", "completion_tokens"),
        *("seconds", *SHARES, SCORE_STOP, SAME_ANSWER),
    )
)
_SHARES = ("completeness", "complete")  # of cells that succeeded
_MAX_LISTED_CELLS = 3
_ROUNDING = 1e-9  # what == ignores, of the larger number


def _median(values: Sequence[float]) -> float:
    from statistics import median  # takes longer to load than all that is here

    return float(median(values))


_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "mean": lambda values: math.fsum(values) / len(values),
    "median": _median,
    "sum": math.fsum,
    "count": len,
    "all": all,
    "any": any,
}
_MAY_BE_EMPTY = ("sum", "count", "all", "any")
_VOCABULARY = Vocabulary(
    noun="metric",
    example="min(score) >= 0.9",
    names=dict.fromkeys(_SHARES, "number"),
    any_name=True,
    functions={
        **dict.fromkeys(_AGGREGATES, "number"),
        **dict.fromkeys(COLLAPSING, "truth"),
        "each": "metric",
    },
    axes=AXES,
)


@dataclass(frozen=True, kw_only=True)
class CellReport:
    """One cell of a phase, as far as a gate looks at it."""

    cell: str  # its path
    axes: Mapping[str, str]  # its name on each axis
    success: bool
    values: Mapping[str, float | bool] = field(default_factory=dict)  # metrics by name


@dataclass(frozen=True, kw_only=True)
class GateNumber:
    """A number that an answer rests on."""

    text: str  # as the expression has it
    value: Value | None  # None: of many cells, each its own
    cells: int  # how many it is made of
    where: tuple[str, ...] = ()  # cells that it is of, or in which a comparison does not hold

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {_short(self.value)}"
        cells = counted(self.cells, "cell")
        return f"{self.text}{value} (of {cells}{': ' if self.where else ''}{_listed(self.where)})"


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Whether a gate's condition holds, and why."""

    holds: bool
    why: str  # why it does not, where a number alone does not tell; "" otherwise
    numbers: tuple[GateNumber, ...] = ()


def check_gate(text: str) -> str:
    """What is wrong with a gate's condition; ``""`` where nothing is."""
    try:
        expression.parse(text, _VOCABULARY)
    except ValueError as error:
        return str(error)
    return ""


def gate_metrics(text: str) -> set[str]:
    """The metrics that a condition speaks of. Raises ValueError for one that `check_gate`
    refuses."""
    nodes = list(ast.walk(expression.parse(text, _VOCABULARY)))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = {one.id for one in nodes if isinstance(one, ast.Name) and id(one) not in functions}
    return names - {*_SHARES, *TRUTHS}


def gate_choices(text: str) -> list[tuple[str, dict[str, tuple[str, ...]]]]:
    """Each function that chooses cells, as the condition has it, with its patterns by axis. Raises
    ValueError for a condition that `check_gate` refuses."""
    nodes = ast.walk(expression.parse(text, _VOCABULARY))
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.keywords]
    return [(ast.unparse(call), _patterns(call)) for call in calls]


def cell_axes(cell: Cell) -> dict[str, str]:
    """The name of a cell on each axis by which a gate chooses."""
    return {
        "models": cell.model.name,
        "configs": cell.config.name,
        "benchmarks": cell.workload.name,
        "subsets": cell.workload.subset or "",
        "hardware": cell.measured_on.name if cell.measured_on else "",
        "repeats": str(cell.repeat),
    }


def evaluate_gate(text: str, cells: Sequence[CellReport]) -> GateResult:
    """Whether the condition holds over these cells. An expression that does not speak of
    completeness asks for all of them. Raises ValueError for one that `check_gate` refuses."""
    tree = expression.parse(text, _VOCABULARY)
    evaluator = _OfCells(cells)
    try:
        holds, why = evaluator.truth(evaluator.value(tree), tree), ""
    except NoValue as error:
        holds, why = False, str(error)
    unsuccessful = [one.cell for one in cells if not one.success]
    if holds and unsuccessful and not evaluator.asked_completeness:
        holds = False
        why = (
            f"{len(unsuccessful)} of {counted(len(cells), 'cell')} did not succeed "
            f"({_listed(unsuccessful)}); a gate that allows for it speaks of completeness"
        )
    return GateResult(holds=holds, why=why, numbers=tuple(evaluator.numbers))


class _OfCells(Evaluator):
    """Evaluates an expression over cells, and notes the numbers as it goes."""

    short_circuit = False  # all numbers are reported

    def __init__(self, cells: Sequence[CellReport]) -> None:
        self._chosen = cells  # inside a call, those that it chooses
        self._calls = 0  # that it is inside of
        self.numbers: list[GateNumber] = []
        self.asked_completeness = False

    def check_truth(self, value: Value | PerCell, node: ast.expr) -> None:
        for cell, one in value.values.items() if isinstance(value, PerCell) else ():
            if not is_truth(one):
                raise NoValue(
                    f"{ast.unparse(subject(node))} is a number ({_short(one)} in {cell}), "
                    f"not true or false; compare it, as in {compared(node)}"
                )

    def compare(self, op: ast.cmpop, lhs: Value, rhs: Value) -> bool:
        equates = isinstance(op, (ast.Eq, ast.NotEq))
        if not equates or isinstance(lhs, str) or isinstance(rhs, str):
            return super().compare(op, lhs, rhs)
        for one, other in ((lhs, rhs), (rhs, lhs)):
            if isinstance(other, bool) and not is_truth(one):
                raise ValueError(
                    f"{_short(one)} is a number, not true or false; compare it with one"
                )
        return math.isclose(lhs, rhs, rel_tol=_ROUNDING) is isinstance(op, ast.Eq)

    def truth(self, value: Value | PerCell, node: ast.expr) -> bool:
        self.check_truth(value, node)
        if isinstance(value, PerCell) and not self._calls:
            fails = tuple(cell for cell, one in value.values.items() if not one)
            self._note(ast.unparse(node), not fails, len(value.values), fails)
        return super().truth(value, node)

    def call(self, node: ast.Call, name: str) -> Value | PerCell:
        outer, text = self._chosen, ast.unparse(node)
        globs = _patterns(node)
        self._chosen = [
            one
            for one in outer
            if all(matches(names, one.axes.get(axis, "")) for axis, names in globs.items())
        ]
        self._calls += 1
        try:
            if globs and not self._chosen:
                raise NoValue(f"{text} matches no cell of this phase")
            values = cast(PerCell, self.value(node.args[0]))
        finally:
            self._chosen, self._calls = outer, self._calls - 1
        if name in COLLAPSING:
            self.check_truth(values, node)
        return values if name == "each" else self._aggregate(name, values, text)

    def _aggregate(self, name: str, values_by_cell: PerCell, text: str) -> Value:
        values = [cast(float, one) for one in values_by_cell.values.values()]
        if not values and name not in _MAY_BE_EMPTY:
            raise NoValue(f"{text}: no cell that succeeded reported it")
        try:
            value = _AGGREGATES[name](values)
        except (ValueError, OverflowError) as error:
            raise NoValue(f"{text}: {error}") from None
        where = [cell for cell, one in values_by_cell.values.items() if one == value]
        self._note(text, value, len(values), where if name in ("min", "max") else ())
        return value

    def name(self, name: str) -> Value | PerCell:
        if name in _SHARES:
            self.asked_completeness = True
            done = sum(one.success for one in self._chosen)
            share = done / len(self._chosen) if self._chosen else 1.0
            self._note(name, share, len(self._chosen))
            return share
        succeeded = [one for one in self._chosen if one.success]
        missing = [one for one in succeeded if name not in one.values]
        if missing:
            raise NoValue(_not_reported(name, missing, succeeded))
        if not self._calls:
            where = [f"{one.cell} {_short(one.values[name])}" for one in succeeded]
            self._note(name, None, len(succeeded), where)
        return PerCell({one.cell: one.values[name] for one in succeeded})

    def _note(self, text: str, value: Value | None, cells: int, where: Iterable[str] = ()) -> None:
        self.numbers.append(GateNumber(text=text, value=value, cells=cells, where=tuple(where)))


def _patterns(call: ast.Call) -> dict[str, tuple[str, ...]]:
    """The patterns by axis with which a function chooses cells."""
    return {
        cast(str, word.arg): tuple(cast(str, cast(ast.Constant, word.value).value).split(","))
        for word in call.keywords
    }


def _not_reported(name: str, missing: Sequence[CellReport], succeeded: Sequence[CellReport]) -> str:
    if len(missing) == len(succeeded):
        known_metrics = sorted({key for one in succeeded for key in one.values})
        return f"no cell reported {name!r}; {hint(name, known_metrics)}"
    return (
        f"{len(missing)} of {counted(len(succeeded), 'cell')} reported no {name!r} "
        f'({_listed([one.cell for one in missing])}); choose some, as each({name}, benchmarks="…")'
    )


def _listed(cells: Sequence[str]) -> str:
    return ", ".join(cells[:_MAX_LISTED_CELLS]) + (", …" if len(cells) > _MAX_LISTED_CELLS else "")


def _short(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.4g}"
