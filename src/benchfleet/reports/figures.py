"""What each heat map shows, as plain values: its rows, its columns and what is drawn of each
entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchfleet.domain.state import State

from . import wording
from .labels import MAX_LABEL_PX, distinct, isolated, shortened
from .tables import Comparison, Entry

_WORST_FIRST: tuple[State, ...] = (
    "failed",
    "partial",
    "running",
    "pending",
    "skipped",
    "cancelled",
    "success",  # done, but without a score
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Model × config of one benchmark; or benchmark × config where there is one model.

    Labels are short and distinct. Of each entry `row` and `column` are its labels, `row_name` and
    `column_name` the whole names where labels are shorter, `mean` and `change` (to the baseline)
    are numbers where there are any, `mean_text` and `change_text` are what its cell says, and the
    rest is in the tooltip.
    """

    title: str  # the benchmarks; not cleaned of what a name may hold
    kind: Literal["model", "benchmark"]  # of the rows
    rows: tuple[str, ...]
    columns: tuple[str, ...]  # configs
    others: tuple[str, ...]  # configs without the baseline
    entries: tuple[Mapping[str, Any], ...]
    lowest: str
    highest: str


def figures(comparison: Comparison) -> Iterator[Figure]:
    """The figures of a comparison, without those that would show no score."""
    for benchmarks in _grouped(comparison):
        entries = [entry for entry in comparison.entries if entry.benchmark in benchmarks]
        if any(entry.mean is not None for entry in entries):
            yield _figure(comparison, benchmarks, entries)


def _grouped(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """The benchmarks of each figure: those on one scale together where there is one model."""
    if len(comparison.models) > 1:
        yield from ((name,) for name in comparison.benchmarks)
        return
    scales: dict[int, list[str]] = {}
    for name in comparison.benchmarks:
        scales.setdefault(wording.decimals(comparison, name), []).append(name)
    yield from map(tuple, scales.values())


def _figure(comparison: Comparison, benchmarks: Sequence[str], entries: Sequence[Entry]) -> Figure:
    decimals = wording.decimals(comparison, benchmarks[0])
    kind: Literal["model", "benchmark"] = "model" if len(comparison.models) > 1 else "benchmark"
    row_names = _names(getattr(entry, kind) for entry in entries)
    present, base = {entry.config for entry in entries}, comparison.baseline
    column_names = _names(name for name in comparison.configs if name in present)
    rows, columns = _labels(row_names), _labels(column_names)
    means = [entry.mean for entry in entries if entry.mean is not None]
    return Figure(
        title=wording.listed(benchmarks),
        kind=kind,
        rows=tuple(rows.values()),
        columns=tuple(columns.values()),
        others=tuple(label for name, label in columns.items() if name != base),
        entries=tuple(
            {
                **_position("row", getattr(entry, kind), rows, row_names),
                **_position("column", entry.config, columns, column_names),
                **_tooltip(entry, decimals),
                **_score_fields(entry, decimals),
                **(
                    {}
                    if entry.config == comparison.baseline
                    else _difference_fields(entry, decimals)
                ),
            }
            for entry in entries
        ),
        lowest=wording.number(min(means), decimals),
        highest=wording.number(max(means), decimals),
    )


def _names(names: Iterable[str]) -> dict[str, str]:
    """Each name in one line; names that look alike then are numbered."""
    return distinct({name: isolated(name) for name in names})


def _labels(names: Mapping[str, str]) -> dict[str, str]:
    """The labels of lines that may be too long for one."""
    short = shortened(names.values(), MAX_LABEL_PX)
    return {name: short[line] for name, line in names.items()}


def _position(
    axis: str, name: str, labels: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, str]:
    """The label of a name on an axis, and the whole of it if some label there is shorter."""
    position = {axis: labels[name]}
    return position if labels == names else {**position, f"{axis}_name": names[name]}


def _tooltip(entry: Entry, decimals: int) -> dict[str, Any]:
    missing = wording.shortfall(entry)
    return {
        "score": wording.score(entry, decimals) + (f" ({missing})" if missing else ""),
        "samples": entry.samples,
        "difference": wording.difference(entry, decimals) or wording.UNMEASURED,
        "interval": wording.interval(entry, decimals) or wording.UNMEASURED,
        "density": wording.density(entry) or wording.UNMEASURED,
        "speed": wording.speed(entry) or wording.UNMEASURED,
    }


def _score_fields(entry: Entry, decimals: int) -> dict[str, Any]:
    """The mean, or the state that stands for it."""
    if entry.mean is None:
        return {"mean_text": next(state for state in _WORST_FIRST if state in entry.states)}
    mark = "*" if wording.shortfall(entry) else ""
    return {"mean": entry.mean, "mean_text": wording.number(entry.mean, decimals) + mark}


def _difference_fields(entry: Entry, decimals: int) -> dict[str, Any]:
    """The difference to the baseline, or what stands for it."""
    difference = entry.difference
    if entry.mean is None:
        return {"change_text": _score_fields(entry, decimals)["mean_text"]}
    if difference is None or difference.difference is None:
        return {"change_text": wording.UNMEASURED}
    text = wording.number(difference.difference, decimals, signed=True)
    return {
        "change": difference.difference,
        "change_text": text
        + ("" if difference.sure or difference.p_value is None else wording.NOT_SURE),
        "sure": difference.sure,
    }
