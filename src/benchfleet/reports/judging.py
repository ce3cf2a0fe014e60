"""What judges said of each model × config × benchmark: scores or win rates, what could not be
scored, order flips, and how far several judges agree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from benchfleet.domain.averages import cluster_freedom, mean, standard_error
from benchfleet.domain.judging import ORDER_BIASED

from .estimates import CONFIDENCE
from .students_t import t_quantile

HEADS = ("judge", "verdicts", "unscored", "score", "95 %", "order flips")
LEGEND = (
    "Judges: answers or pairs without a verdict are unscored, and no zero. A win rate is over both "
    "orders of each pair; an order flip is a pair in which the same position won twice. "
    "The interval counts answers to one question, or about one context, as one cluster."
)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One judge on one model × config × benchmark."""

    model: str
    config: str
    benchmark: str
    judge: str
    mean: float  # of the verdicts, or the win rate over the baseline
    interval: tuple[float, float] | None  # None below two questions
    scored: int  # answers with a verdict, or pairs
    unscored: int  # answers or pairs without one
    win_rate: bool = False
    order_flips: float = 0.0  # share of pairs
    first_share: float = 0.5  # of the order flips, those for the first position
    scores: Mapping[str, float] = field(default_factory=dict, repr=False)  # by answer

    @property
    def is_order_biased(self) -> bool:
        """Whether so many verdicts follow the position that they say little."""
        return self.order_flips > ORDER_BIASED

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        names = [name for name in self.__dataclass_fields__ if name != "scores"]
        values = {name: getattr(self, name) for name in names}
        interval = list(self.interval) if self.interval else None
        return {**values, "interval": interval, "is_order_biased": self.is_order_biased}


def judged(
    names: tuple[str, str, str, str],
    samples: Sequence[Mapping[str, Any]],
    reported: Mapping[str, Any],
    answers: Iterable[Mapping[str, Any]] = (),
) -> Judged | None:
    """Of the samples of a judge's result; None without a scored one. `names` are model, config,
    benchmark and judge. `answers` are the samples that were judged: those of one question, or of
    one context, are a cluster."""
    cluster_of = {
        str(one["id"]): str(one.get("context") or one.get("question") or one["id"])
        for one in answers
    }
    values: dict[str, float] = {}
    judged_ids: set[str] = set()  # both orders of a pair are one
    for sample in samples:
        question = str((sample.get("columns") or {}).get("question", sample["id"]))
        judged_ids.add(question)
        if "score" in sample:
            values[question] = float(sample["score"])
    if not values:
        return None
    model, config, benchmark, judge = names
    scores = [*values.values()]
    clusters = [cluster_of.get(name, name) for name in values]
    center, error = mean(scores), standard_error(scores, clusters)
    reach = None if error is None else t_quantile(CONFIDENCE, cluster_freedom(clusters)) * error
    return Judged(
        model=model,
        config=config,
        benchmark=benchmark,
        judge=judge,
        mean=center,
        interval=None if reach is None else (center - reach, center + reach),
        scored=len(scores),
        unscored=len(judged_ids) - len(values),
        win_rate="win_rate" in reported,
        order_flips=float(reported.get("order_flips", 0.0)),
        first_share=float(reported.get("first_share", 0.5)),
        scores=values,
    )


def agreement(rows: Iterable[Judged]) -> dict[tuple[str, str, str], float | None]:
    """Krippendorff's alpha, interval level, of the judges of each model × config × benchmark with
    several; None where it is undefined, or the package `krippendorff` is missing."""
    judges: dict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    for row in rows:
        judges[row.model, row.config, row.benchmark].append(row)
    return {name: _alpha(some) for name, some in judges.items() if len(some) > 1}


def sentences(rows: Sequence[Judged]) -> Iterator[str]:
    """What a reader has to know of the judges beside the table."""
    for row in rows:
        if row.is_order_biased:
            favours = "first" if row.first_share >= 0.5 else "second"
            yield (
                f"{row.judge} is order-biased on {row.model} / {row.config} / {row.benchmark}: "
                f"{row.order_flips:.0%} of the pairs flip with the order, mostly for the {favours}"
            )
    for (model, config, benchmark), alpha in agreement(rows).items():
        text = "undefined, or krippendorff is missing" if alpha is None else f"{alpha:.3f}"
        yield f"Krippendorff's alpha of the judges on {model} / {config} / {benchmark}: {text}"


def texts(row: Judged) -> tuple[str, ...]:
    """The columns of `HEADS`."""
    interval = "–" if row.interval is None else f"{row.interval[0]:.3f} to {row.interval[1]:.3f}"
    score = f"wins {row.mean:.1%}" if row.win_rate else f"{row.mean:.3f}"
    flips = f"{row.order_flips:.0%}" if row.win_rate else "–"
    return (row.judge, str(row.scored), str(row.unscored), score, interval, flips)


def _alpha(rows: Sequence[Judged]) -> float | None:
    if find_spec("krippendorff") is None:
        return None
    import krippendorff

    questions = list(dict.fromkeys(name for row in rows for name in row.scores))
    data = [[row.scores.get(name, math.nan) for name in questions] for row in rows]
    try:
        return float(krippendorff.alpha(reliability_data=data, level_of_measurement="interval"))
    except ValueError:  # all verdicts are equal
        return None
