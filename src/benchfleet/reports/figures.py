"""What each heat map shows, as plain values: its rows, its columns and what is drawn of each
entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchfleet.domain.state import State

from . import wording
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

    Labels are in one line and tell apart what they stand for. Of each entry `row` and `column`
    are its labels, `mean` and `change` (to the baseline) are numbers where there are any,
    `mean_text` and `change_text` are what its cell says, and the rest is in the tooltip.
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
    rows = _labels(getattr(entry, kind) for entry in entries)
    present, base = {entry.config for entry in entries}, comparison.baseline
    columns = _labels(name for name in comparison.configs if name in present)
    means = [entry.mean for entry in entries if entry.mean is not None]
    return Figure(
        title=wording.listed(benchmarks),
        kind=kind,
        rows=tuple(rows.values()),
        columns=tuple(columns.values()),
        others=tuple(label for name, label in columns.items() if name != base),
        entries=tuple(
            {
                "row": rows[getattr(entry, kind)],
                "column": columns[entry.config],
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


def _labels(names: Iterable[str]) -> dict[str, str]:
    """Each name in one line; names that look alike then are numbered."""
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        line = label = wording.one_line(name)
        number = 1
        while label in labels.values():
            number += 1
            label = f"{line} ({number})"
        labels[name] = label
    return labels


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
