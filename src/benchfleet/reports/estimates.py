"""Estimates of differences, each with its interval at any confidence and for any sample size.

A confidence is given as z, its normal quantile: 1.96 means 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Protocol

from .proportions import score_interval, upper_end
from .roots import find_root
from .students_t import t_quantile, two_sided_p

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_MAX_Z = 7.0  # of a p-value, which is then below 3e-12
_TOLERANCE = 1e-7  # of z

Interval = tuple[float, float]


class Estimate(Protocol):
    """A difference and its error."""

    @property
    def middle(self) -> float:
        """The difference itself."""

    def interval(self, z: float) -> Interval:
        """Its two-sided interval."""

    def lower_end(self, z: float) -> float:
        """The lower end of that interval."""

    def grown(self, growth: float) -> Estimate:
        """The same difference, from `growth` times the samples."""

    def reversed(self) -> Estimate:
        """The same with the sides swapped."""


@dataclass(frozen=True, kw_only=True)
class StudentEstimate:
    """A mean with Student's interval; of equal values, whose error is 0, the interval is empty."""

    middle: float
    stderr: float
    freedom: float

    def interval(self, z: float) -> Interval:
        low = self.lower_end(z)
        return low, 2 * self.middle - low

    def lower_end(self, z: float) -> float:
        if not self.stderr:
            return self.middle
        return self.middle - t_quantile(1 - p_of(z), self.freedom) * self.stderr

    def grown(self, growth: float) -> StudentEstimate:
        return replace(self, stderr=self.stderr / math.sqrt(growth))

    def reversed(self) -> StudentEstimate:
        return replace(self, middle=-self.middle)


@dataclass(frozen=True, kw_only=True)
class ScoreEstimate:
    """Pairs of 0 and 1 with Tango's score interval. Counts need not be whole numbers."""

    gains: float
    losses: float
    n: float

    @property
    def middle(self) -> float:
        return (self.gains - self.losses) / self.n

    def interval(self, z: float) -> Interval:
        return score_interval(self.gains, self.losses, self.n, z)

    def lower_end(self, z: float) -> float:
        return -upper_end(self.losses, self.gains, self.n, z)

    def grown(self, growth: float) -> ScoreEstimate:
        return ScoreEstimate(
            gains=self.gains * growth, losses=self.losses * growth, n=self.n * growth
        )

    def reversed(self) -> ScoreEstimate:
        return ScoreEstimate(gains=self.losses, losses=self.gains, n=self.n)


@dataclass(frozen=True)
class WeightedEstimate:
    """A weighted sum of independent estimates; its interval is MOVER's (Zou & Donner 2008,
    Statistics in Medicine 27, 1693-1702)."""

    parts: tuple[tuple[float, Estimate], ...]

    @property
    def middle(self) -> float:
        return math.fsum(weight * part.middle for weight, part in self.parts)

    def interval(self, z: float) -> Interval:
        return self.lower_end(z), -self.reversed().lower_end(z)

    def lower_end(self, z: float) -> float:
        reaches = []
        for weight, part in self.parts:
            part = part if weight > 0 else part.reversed()
            reaches.append(weight * (part.middle - part.lower_end(z)))
        return self.middle - math.hypot(*reaches)

    def grown(self, growth: float) -> WeightedEstimate:
        return WeightedEstimate(tuple((w, part.grown(growth)) for w, part in self.parts))

    def reversed(self) -> WeightedEstimate:
        return WeightedEstimate(tuple((w, part.reversed()) for w, part in self.parts))


def weighted_estimate(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """The weighted sum of independent estimates.

    Those of Student become one first, with the variance Σ w² s² and Satterthwaite's degrees of
    freedom (Biometrics Bulletin 1946, 2, 110-114).
    """
    students: list[tuple[float, StudentEstimate]] = []
    others: list[tuple[float, Estimate]] = []
    for weight, part in parts:
        if isinstance(part, StudentEstimate):
            students.append((weight, part))
        else:
            others.append((weight, part))
    if students:
        student = _student_sum(students)
        if not others:
            return student
        others.append((1.0, student))
    return WeightedEstimate(tuple(others))


def _student_sum(parts: Sequence[tuple[float, StudentEstimate]]) -> StudentEstimate:
    errors = [(weight * part.stderr, part.freedom) for weight, part in parts]
    return StudentEstimate(
        middle=math.fsum(weight * part.middle for weight, part in parts),
        stderr=math.hypot(*(error for error, _ in errors)),
        freedom=satterthwaite(errors),
    )


def satterthwaite(errors: Sequence[tuple[float, float]]) -> float:
    """The degrees of freedom of a sum's standard error, from each part's error and degrees of
    freedom; infinite where all errors are 0."""
    stderr = math.hypot(*(error for error, _ in errors))
    if not stderr:
        return math.inf
    return 1 / math.fsum((error / stderr) ** 4 / freedom for error, freedom in errors if error)


def p_value(estimate: Estimate) -> float:
    """The two-sided p at which the interval ends at 0, so that both always agree. Raises
    ZeroDivisionError for Student's estimate without an error."""
    if isinstance(estimate, StudentEstimate):
        return two_sided_p(estimate.middle / estimate.stderr, estimate.freedom)
    if not estimate.middle:
        return 1.0
    side = estimate if estimate.middle > 0 else estimate.reversed()
    reach = (side.middle - side.lower_end(Z)) / Z  # of each unit of z, about
    step = 1.1 * side.middle / reach if reach else _MAX_Z
    return p_of(find_root(side.lower_end, (0.0, side.middle), step, _MAX_Z, tolerance=_TOLERANCE))


def p_of(z: float) -> float:
    """The two-sided p-value of a normal quantile."""
    return math.erfc(z / math.sqrt(2))
