"""What the page's tables show: model × config rows, cell by cell, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.humanize import counted, duration

from . import spending, wording
from .ranking import Winner
from .statistics import mean
from .tables import Comparison, Entry

OVERVIEW_MIN_BENCHMARKS = 9  # a smaller report fits on a page


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one cell says."""

    text: str = wording.UNMEASURED
    mark: str = ""  # a class of the page's style
    hint: str = ""  # where the pointer rests
    name: str = ""  # above the text; not cleaned of what a name may hold


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one model: each config's cells."""

    model: str
    rows: Mapping[str, Sequence[Cell]]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of model × config rows; rows of which nothing is known are left out."""

    head: Sequence[str]
    groups: Sequence[Group]


def page_tables(comparison: Comparison) -> dict[str, Grid | None]:
    """The tables of a page by name; None for those that would be empty."""
    return {
        "overview": overview(comparison),
        "scores": _by_benchmark(comparison, _score),
        "differences": _by_benchmark(comparison, _difference),
        "costs": _by_benchmark(comparison, _cost),
        "time": _time(comparison),
        "spent": _spent(comparison),
    }


def overview(comparison: Comparison) -> Grid | None:
    """Per model × config the mean over the benchmarks where all its configs have a result, and
    how many benchmarks the config leads; None for a report that is short without it. Benchmarks
    with scores outside 0 to 1 have another scale, so no mean includes them."""
    if len(comparison.benchmarks) < OVERVIEW_MIN_BENCHMARKS:
        return None
    leads = Counter((one.model, one.config) for one in comparison.winners if not one.ties)
    other_scale = {
        one.benchmark
        for one in comparison.entries
        if one.mean is not None and not 0.0 <= one.mean <= 1.0
    }
    groups = []
    for model in comparison.models:
        entries = [one for one in comparison.entries if one.model == model]
        without = other_scale | {one.benchmark for one in entries if one.mean is None}
        means: dict[str, list[float]] = {one.config: [] for one in entries}
        for one in entries:
            if one.mean is not None and one.benchmark not in without:
                means[one.config].append(one.mean)
        rows = {
            config: [
                Cell(text=wording.number(mean(values), 3) if values else wording.UNMEASURED),
                Cell(text=str(len(values))),
                Cell(text=str(leads[model, config])),
            ]
            for config, values in means.items()
            if values or leads[model, config]
        }
        if rows:
            groups.append(Group(model=model, rows=rows))
    return Grid(head=["mean", "benchmarks", "leads"], groups=groups) if groups else None


def leaders(comparison: Comparison) -> Grid:
    """Which config leads each model × benchmark; one row for each model."""
    winner_of = {(winner.model, winner.benchmark): winner for winner in comparison.winners}
    rows = {
        model: [_leader(winner_of.get((model, name))) for name in comparison.benchmarks]
        for model in comparison.models
    }
    return Grid(
        head=comparison.benchmarks,
        groups=[Group(model=model, rows={"": cells}) for model, cells in rows.items()],
    )


def _leader(winner: Winner | None) -> Cell:
    if winner is None:
        return Cell()
    better = f"{wording.HIGHER} {len(winner.better_than)}" if winner.better_than else ""
    others = len(winner.not_different_from) + len(winner.not_compared_with)
    counts = (better, f"{wording.NOT_SURE} {others}" if others else "")
    return Cell(
        name=winner.config,
        text=" ".join(filter(None, counts)) or "alone",
        mark="higher" if winner.is_sure else "",
    )


def _by_benchmark(
    comparison: Comparison, render: Callable[[Entry, int], Cell | None]
) -> Grid | None:
    decimals = {name: wording.decimals(comparison, name) for name in comparison.benchmarks}
    groups = []
    for model in comparison.models:
        rows = {}
        for config in comparison.configs:
            entries = [comparison.entry_at.get((model, config, name)) for name in decimals]
            cells = [
                render(entry, digits) if entry else None
                for entry, digits in zip(entries, decimals.values(), strict=True)
            ]
            if any(cells):
                rows[config] = [cell or Cell() for cell in cells]
        if rows:
            groups.append(Group(model=model, rows=rows))
    return Grid(head=comparison.benchmarks, groups=groups) if groups else None


def _score(entry: Entry, decimals: int) -> Cell:
    missing = wording.shortfall(entry)
    text = wording.score(entry, decimals) + (f" ({missing})" if missing else "")
    return Cell(text=text, mark="state" if entry.mean is None or missing else "")


def _difference(entry: Entry, decimals: int) -> Cell | None:
    difference = entry.difference
    text = wording.difference(entry, decimals)
    if difference is None or not text:
        return None
    interval = wording.interval(entry, decimals)
    return Cell(
        text=text,
        mark="higher"
        if difference.significantly_higher
        else "lower"
        if difference.significantly_lower
        else "unsure",
        hint=f"{interval} on {counted(difference.n, 'value')}" if interval else "",
    )


def _cost(entry: Entry, decimals: int) -> Cell | None:
    text = " · ".join(filter(None, (wording.density(entry), wording.speed(entry))))
    return Cell(text=text) if text else None


def _time(comparison: Comparison) -> Grid | None:
    stages = [*wording.by_stage(*comparison.time)]
    rows: dict[str, dict[str, list[Cell]]] = {}
    for spent in comparison.time:
        named = wording.by_stage(spent)
        rows.setdefault(spent.model, {})[spent.config] = [
            Cell(text=duration(named.get(stage, 0.0))) for stage in stages
        ]
    groups = [Group(model=model, rows=configs) for model, configs in rows.items()]
    return Grid(head=stages, groups=groups) if groups else None


def _spent(comparison: Comparison) -> Grid | None:
    columns = spending.columns(comparison.spent)
    rows: dict[str, dict[str, list[Cell]]] = {}
    for number, spent in enumerate(comparison.spent):
        texts = (column[number] or wording.UNMEASURED for column in columns.values())
        rows.setdefault(spent.model, {})[spent.config] = [Cell(text=text) for text in texts]
    groups = [Group(model=model, rows=configs) for model, configs in rows.items()]
    return Grid(head=[*columns], groups=groups) if groups else None
