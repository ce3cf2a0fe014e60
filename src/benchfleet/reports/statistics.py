"""Standard errors, paired differences and corrections for many comparisons, as pure functions.

The methods are those of "Adding Error Bars to Evals" (arXiv 2411.00640): a mean's standard error
is s/√n over its samples, clustered where samples share a context. Two configs are compared by the
differences of the samples that both answered, which takes out what makes a sample hard for both.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeVar

from benchfleet.domain.averages import cluster_freedom, mean, standard_error

from .estimates import (
    CONFIDENCE,
    Estimate,
    ScoreEstimate,
    StudentEstimate,
    Z,
    p_value,
    satterthwaite,
    weighted_estimate,
)
from .proportions import design_effect, paired_interval
from .students_t import incomplete_beta

SIGNIFICANCE = 1 - CONFIDENCE

_RELATIVE_NOISE = 1e-12  # of the largest score: differences below it are noise of the arithmetic

_Key = TypeVar("_Key", bound=Hashable)
Test = Literal["t", "mcnemar", "score", "sign", ""]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean of paired differences, and how far it is to be trusted."""

    n: int  # samples that both sides have
    difference: float | None  # ours less the baseline's; None where n is 0
    stderr: float | None = None  # None where n is below 2
    interval: tuple[float, float] | None = None  # 95 %, two-sided; None where s is unknown or 0
    p_value: float | None = None  # two-sided; None where n is below 2
    test: Test = ""  # what gave the p-value: Student's t, McNemar's, MOVER's interval, or signs
    clusters: int | None = None  # contexts that samples share; None where each has its own
    adjusted_p: float | None = None  # after Holm's correction, where one was made
    family: int = 1  # comparisons that this correction covers
    satterthwaite: float | None = None  # degrees of freedom; None: one less than samples
    estimate: Estimate | None = None  # gives its interval at any size; None where s is unknown
    sure: bool = field(init=False)  # p, adjusted where it was, is below 5 %

    def __post_init__(self) -> None:
        p = self.p_value if self.adjusted_p is None else self.adjusted_p
        object.__setattr__(self, "sure", p is not None and p < SIGNIFICANCE)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of its error: one less than samples, or Satterthwaite's."""
        return self.n - 1 if self.satterthwaite is None else self.satterthwaite

    @property
    def significantly_higher(self) -> bool:
        """Ours is above the baseline, and sure to be."""
        return self.sure and self.difference is not None and self.difference > 0

    @property
    def significantly_lower(self) -> bool:
        """Ours is below the baseline, and sure to be."""
        return self.sure and self.difference is not None and self.difference < 0

    def reversed(self) -> Difference:
        """The baseline's less ours."""
        difference = None if self.difference is None else -self.difference
        interval = (-self.interval[1], -self.interval[0]) if self.interval else None
        estimate = self.estimate.reversed() if self.estimate else None
        return replace(self, difference=difference, interval=interval, estimate=estimate)

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del values["estimate"]
        return {**values, "interval": list(self.interval) if self.interval else None}


def paired_difference(
    ours: Mapping[_Key, float],
    baseline: Mapping[_Key, float],
    clusters: Mapping[_Key, Hashable] | None = None,
) -> Difference:
    """Ours less the baseline's over the samples that both have.

    `clusters` names the context of samples that share one; others are a cluster of their own. The
    interval is Student's, with n − 1 degrees of freedom, or those of `cluster_freedom`. So is p,
    except in two cases. Scores of 0 and 1 alone take McNemar's exact test and Tango's score
    interval; shared contexts divide their counts by the design effect. Where all differences are
    equal, s = 0 says nothing of what other samples would show. Then p is the sign test's, 2^(1−n),
    or 1 where all are 0 (n counts clusters).
    """
    shared = [key for key in ours if key in baseline]
    if not shared:
        return Difference(n=0, difference=None)
    mine, theirs = [ours[key] for key in shared], [baseline[key] for key in shared]
    differences = list(map(operator.sub, mine, theirs))
    groups = _groups(shared, clusters) if clusters else None
    independent = len(shared) if groups is None else len(set(groups))
    middle, n = mean(differences), len(shared)
    stderr = standard_error(differences, groups)
    count = None if groups is None else independent
    if stderr is None:
        return Difference(n=n, difference=middle, clusters=count)
    flips = _flips(differences, groups) if {*mine, *theirs} <= {0, 1} else None
    score_interval = paired_interval(flips.gains, flips.losses, flips.n) if flips else None
    largest = max(max(mine), -min(mine), max(theirs), -min(theirs))
    noise = _RELATIVE_NOISE * largest
    if stderr <= noise or max(differences) - min(differences) <= noise:
        middle, stderr = 0.0 if abs(middle) <= noise else middle, 0.0
    freedom = None if groups is None else cluster_freedom(groups)
    student = StudentEstimate(middle=middle, stderr=stderr, freedom=freedom or independent - 1)
    if not stderr:
        return Difference(
            n=n,
            difference=middle,
            stderr=0.0,
            interval=score_interval,
            estimate=flips or student,
            p_value=2.0 ** (1 - independent) if middle else 1.0,
            test="sign",
            clusters=count,
            satterthwaite=freedom,
        )
    return Difference(
        n=n,
        difference=middle,
        stderr=stderr,
        interval=score_interval or student.interval(Z),
        estimate=flips or student,
        p_value=mcnemar_p(flips.gains, flips.losses) if flips else p_value(student),
        test="mcnemar" if flips else "t",
        clusters=count,
        satterthwaite=freedom,
    )


def _flips(differences: Sequence[float], groups: Sequence[Hashable] | None) -> ScoreEstimate:
    """Differences of 0, 1 and −1, as counts of independent pairs."""
    effect = 1.0 if groups is None else design_effect(differences, groups)
    gains, losses = differences.count(1) / effect, differences.count(-1) / effect
    return ScoreEstimate(gains=gains, losses=losses, n=len(differences) / effect)


def weighted_difference(parts: Sequence[tuple[float, Difference]]) -> Difference:
    """The weighted mean of differences over independent samples, with its propagated error.

    The variance is Σ w² s². The interval is Student's, or MOVER's where a part has a score
    interval. p is where the interval ends at 0. Where no part varies, it is at least the sign
    test's over all samples. A part without a difference, or without an error, leaves the whole
    without.
    """
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    count = sum(one.n for _, one in parts)
    means = [(w, d.difference) for w, d in parts if d.difference is not None]
    if len(means) < len(parts) or not parts:
        return Difference(n=0, difference=None)
    middle = math.fsum(weight * difference for weight, difference in means)
    errors = [(w * d.stderr, d.freedom) for w, d in parts if d.stderr is not None]
    estimates = [(w, d.estimate) for w, d in parts if d.estimate is not None]
    if len(estimates) < len(parts) or len(errors) < len(parts):
        return Difference(n=count, difference=middle)
    stderr = math.hypot(*(error for error, _ in errors))
    estimate = weighted_estimate(estimates)
    is_student = isinstance(estimate, StudentEstimate)
    interval = None if is_student and not stderr else estimate.interval(Z)
    p = 0.0 if interval is None else p_value(estimate)
    test: Test = "t" if is_student else "score"
    if not stderr:
        signs = _sign_p([(d, f + 1) for (_, d), (_, f) in zip(means, errors, strict=True)])
        if signs >= p:
            p, test = signs, "sign"
    return Difference(
        n=count,
        difference=middle,
        stderr=stderr,
        interval=interval,
        estimate=estimate,
        p_value=p,
        test=test,
        satterthwaite=satterthwaite(errors) if stderr else None,
    )


def _sign_p(parts: Sequence[tuple[float, float]]) -> float:
    """The sign test's p of parts whose samples all differ by the same; each with its samples."""
    apart = [(difference > 0, count) for difference, count in parts if difference]
    if len({is_higher for is_higher, _ in apart}) != 1:
        return 1.0
    return min(1.0, 2.0 ** (1 - sum(count for _, count in apart)))


def _groups(keys: Sequence[_Key], clusters: Mapping[_Key, Hashable]) -> list[Hashable] | None:
    """The cluster of each key; None where no two keys share one."""
    groups = [(True, clusters[key]) if key in clusters else (False, key) for key in keys]
    return groups if len(set(groups)) < len(groups) else None  # type: ignore[return-value]


@cache
def mcnemar_p(gains: float, losses: float) -> float:
    """McNemar's exact two-sided p of paired answers that are right or wrong (Psychometrika 1947,
    12, 153-157): `gains` are right on our side alone, `losses` on the other alone. Counts over a
    design effect are between whole numbers, and so is p."""
    if gains == losses:
        return 1.0
    return min(1.0, 2 * incomplete_beta(max(gains, losses), min(gains, losses) + 1, 0.5, 0.5))


def holm(p_values: Sequence[float], *, family: int | None = None) -> list[float]:
    """Each p-value adjusted for the others (Holm 1979, Scand. J. Statist. 6, 65-70).

    Calling those below 5 % significant has a family-wise error rate of at most 5 %. `family` is the
    number of comparisons if not all of them are given: the others count as not significant.
    Raises ValueError if it is less than the number given.
    """
    size = len(p_values) if family is None else family
    if size < len(p_values):
        raise ValueError(f"a family of {size} cannot hold {len(p_values)} comparisons")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (size - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
