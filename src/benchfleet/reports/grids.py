"""What the page's tables show: model × config rows, cell by cell, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.domain.averages import mean
from benchfleet.domain.humanize import counted, duration
from benchfleet.domain.question_draws import display_name

from . import spending, wording
from .endings import HEADS
from .judging import HEADS as JUDGE_HEADS
from .judging import texts
from .statistics import Difference
from .suites import SuiteScore
from .tables import Comparison, Entry
from .winners import Winner

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
        "suites": suites(comparison),
        "scores": _by_benchmark(comparison, _score),
        "differences": _by_benchmark(comparison, _difference),
        "endings": ended(comparison),
        "judges": judges(comparison),
        "several": several_answers(comparison),
        "costs": _by_benchmark(comparison, _cost),
        "time": _time(comparison),
        "spent": _spent(comparison),
    }


def ended(comparison: Comparison) -> Grid | None:
    """How the answers ended, for each model and config × benchmark where some ended otherwise than
    by `stop`; None if all of them did."""
    groups = []
    for model in comparison.models:
        rows = {}
        for entry in comparison.entries:
            if entry.model == model and entry.endings.shares:
                digits = wording.decimals(comparison, entry.benchmark)
                stop = entry.endings.score_stop
                all_stop = None if sum(entry.endings.shares.values()) >= 1 else entry.mean
                scores = [entry.mean, all_stop if stop is None else stop]
                shares = [entry.endings.shares.get(end, 0.0) for end in HEADS[2:]]
                texts = [wording.UNMEASURED if v is None else f"{v:.{digits}f}" for v in scores]
                texts += [f"{share:.1%}" if share else wording.UNMEASURED for share in shares]
                rows[f"{entry.config} / {entry.benchmark}"] = [Cell(text=text) for text in texts]
        if rows:
            groups.append(Group(model=model, rows=rows))
    return Grid(head=[*HEADS], groups=groups) if groups else None


def judges(comparison: Comparison) -> Grid | None:
    """What each judge said of each model and config × benchmark; None without judges."""
    groups = []
    for model in dict.fromkeys(row.model for row in comparison.judged):
        rows = {
            f"{row.config} / {row.benchmark} / {row.judge}": [Cell(text=t) for t in texts(row)]
            for row in comparison.judged
            if row.model == model
        }
        groups.append(Group(model=model, rows=rows))
    return Grid(head=[*JUDGE_HEADS], groups=groups) if groups else None


def several_answers(comparison: Comparison) -> Grid | None:
    """pass@k, pass^k and maj@k for each model and config × benchmark with several answers to a
    question; None if there is none."""
    names = list(dict.fromkeys(n for one in comparison.entries for n in one.endings.draws))
    groups = []
    for model in comparison.models:
        rows = {
            f"{one.config} / {one.benchmark}": [
                Cell(text=f"{one.endings.draws[name]:.3f}" if name in one.endings.draws else "–")
                for name in names
            ]
            for one in comparison.entries
            if one.model == model and one.endings.draws
        }
        if rows:
            groups.append(Group(model=model, rows=rows))
    return Grid(head=[*map(display_name, names)], groups=groups) if groups else None


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


def suites(comparison: Comparison) -> Grid | None:
    """Per model × config the score of each suite, and its difference to the baseline."""
    names = [*dict.fromkeys(one.suite for one in comparison.suites)]
    decimals = {name: wording.decimals(comparison, name) for name in names}
    by_row: dict[str, dict[str, dict[str, SuiteScore]]] = {}
    for one in comparison.suites:
        by_row.setdefault(one.model, {}).setdefault(one.config, {})[one.suite] = one
    groups = [
        Group(
            model=model,
            rows={
                config: [
                    cell for name in names for cell in _suite(scores.get(name), decimals[name])
                ]
                for config, scores in rows.items()
            },
        )
        for model, rows in by_row.items()
    ]
    head = [text for name in names for text in (name, f"difference to {comparison.baseline}")]
    return Grid(head=head, groups=groups) if groups else None


def _suite(score: SuiteScore | None, decimals: int) -> tuple[Cell, Cell]:
    if score is None:
        return Cell(), Cell()
    if score.mean is None:
        return Cell(text=score.remark, mark="state"), Cell()
    text = wording.with_error(score.mean, score.stderr, decimals)
    difference = wording.difference_text(score.difference, decimals)
    changed = Cell(text=difference, mark=_mark(score.difference)) if difference else Cell()
    return Cell(text=text), changed


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
    counts = {
        wording.HIGHER: len(winner.better_than),
        wording.NOT_SURE: len(winner.not_different_from),
        wording.NOT_COMPARED: len(winner.not_compared_with),
    }
    return Cell(
        name=winner.config,
        text=" ".join(f"{mark} {count}" for mark, count in counts.items() if count) or "alone",
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
        mark=_mark(difference),
        hint=f"{interval} on {counted(difference.n, 'value')}" if interval else "",
    )


def _mark(difference: Difference | None) -> str:
    """The class of a difference."""
    if difference is None:
        return ""
    if difference.significantly_higher:
        return "higher"
    return "lower" if difference.significantly_lower else "unsure"


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
