"""Pooling the repeats of one model × config × benchmark into the values that statistics take.

Repeats ask different samples, so that all their samples count as one sample of the benchmark.
Where a benchmark's headline is not the mean of its samples' scores, or it has none, each
repeat's headline is one value instead; that is decided for all configs of a model × benchmark
alike, because they are compared value by value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchfleet.domain.attempt import CellRecord, Outcome
from benchfleet.domain.canonical import content_digest
from benchfleet.domain.cell import Cell, Fingerprint
from benchfleet.domain.state import State

from .statistics import mean

Scores = Callable[[CellRecord], Mapping[str, float]]
Key = tuple[int, str]  # 0 and a sample's id, or a repeat and "" for its headline
_HEADLINE = ""


@dataclass(kw_only=True)
class Pool:
    """The repeats of one model × config × benchmark."""

    states: Counter[State] = field(default_factory=Counter)
    outcomes: list[Outcome] = field(default_factory=list)  # of the repeats that have a score
    values: Mapping[Key, float] = field(default_factory=dict)
    scored: list[tuple[int, float, Mapping[str, float]]] = field(default_factory=list)
    slowed: bool = False  # dense attention was computed beside the sparse one, to measure it

    def add(self, cell: Cell, record: CellRecord | None, scores: Scores) -> None:
        """Count a repeat in, with its score where it has one."""
        self.states[record.state if record else "pending"] += 1
        self.slowed = bool(cell.config.attention) and cell.config.mode != "fast"
        outcome = record.outcome if record and record.state == "success" else None
        if record and outcome and "overall_score" in outcome.metrics:
            headline = float(outcome.metrics["overall_score"])
            self.outcomes.append(outcome)
            self.scored.append((cell.repeat, headline, scores(record)))

    def is_mean_of_samples(self) -> bool:
        """Whether every repeat's headline is the mean of its samples' scores."""
        return all(
            samples
            and math.isclose(mean([*samples.values()]), headline, rel_tol=1e-6, abs_tol=1e-9)
            for _, headline, samples in self.scored
        )

    @property
    def lacks_samples(self) -> bool:
        """Whether a repeat has a score, and no samples of it are here."""
        return any(not samples for _, _, samples in self.scored)

    @property
    def has_none(self) -> bool:
        """Whether its benchmark reported no samples, as a script may."""
        return all(outcome.metrics.get("samples") == 0 for outcome in self.outcomes)

    def settle(self, *, by_sample: bool) -> None:
        """Take the samples, or the headlines, as the values.

        A sample that several repeats asked again, under one id, is one value, their mean: asking
        the same thing ten times does not make ten independent answers.
        """
        if not by_sample:
            self.values = {(repeat, _HEADLINE): headline for repeat, headline, _ in self.scored}
            return
        scores_of: dict[str, list[float]] = {}
        for _, _, samples in self.scored:
            for name, value in samples.items():
                scores_of.setdefault(name, []).append(value)
        self.values = {(0, name): mean(values) for name, values in scores_of.items()}


@dataclass(frozen=True, kw_only=True)
class Row:
    """The configs of one model × benchmark, in the campaign's order."""

    model: str
    benchmark: str
    pools: dict[str, Pool]
    by_sample: bool = True

    @property
    def lacks_samples(self) -> bool:
        """Whether scores stand for samples that are not here."""
        return any(pool.lacks_samples for pool in self.pools.values())

    @property
    def has_none(self) -> bool:
        """Whether there are no samples that could be here."""
        return all(pool.has_none for pool in self.pools.values())

    def measured(self) -> dict[str, Mapping[Key, float]]:
        """The values of the configs that have any."""
        return {config: pool.values for config, pool in self.pools.items() if pool.values}


def pooled(
    pairs: Sequence[tuple[Cell, CellRecord | None]],
    columns: Mapping[Fingerprint, str],
    scores: Scores,
) -> list[Row]:
    """A row for each model × benchmark, in the campaign's order."""
    pools_of: dict[tuple[str, str], dict[str, Pool]] = {}
    for cell, record in pairs:
        pools = pools_of.setdefault((cell.model.name, columns[cell.fingerprint]), {})
        pools.setdefault(cell.config.name, Pool()).add(cell, record, scores)
    rows = []
    for (model, benchmark), pools in pools_of.items():
        by_sample = all(pool.is_mean_of_samples() for pool in pools.values())
        for pool in pools.values():
            pool.settle(by_sample=by_sample)
        rows.append(Row(model=model, benchmark=benchmark, pools=pools, by_sample=by_sample))
    return rows


def column_names(cells: Sequence[Cell]) -> dict[Fingerprint, str]:
    """Each cell's benchmark with subset and limit; a name that is taken gets a mark."""
    names: dict[str, str] = {}  # by the workload's digest
    columns = {}
    for cell in cells:
        digest = content_digest(cell.workload.identity())
        if digest not in names:
            name = cell.workload.label
            names[digest] = f"{name}@{digest[:8]}" if name in names.values() else name
        columns[cell.fingerprint] = names[digest]
    return columns
