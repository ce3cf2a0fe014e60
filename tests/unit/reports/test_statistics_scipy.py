"""Each statistic against scipy's, or against a published worked example."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from benchfleet.domain.averages import cluster_freedom, mean, standard_error
from benchfleet.reports.detectable_effect import detectable, samples_to_detect
from benchfleet.reports.statistics import (
    Difference,
    mcnemar_p,
    paired_difference,
    weighted_difference,
)
from benchfleet.reports.students_t import t_quantile, two_sided_p

VALUES = st.lists(st.floats(-100, 100), min_size=3, max_size=30)


def named(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def normal(seed: int, count: int, shift: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(shift, 1) for _ in range(count)]


@given(VALUES)
def test_mean_and_standard_error_are_those_of_scipy(values: Sequence[float]) -> None:
    assert mean(values) == pytest.approx(float(stats.tmean(values)), rel=1e-9, abs=1e-12)
    assert standard_error(values) == pytest.approx(float(stats.sem(values)), rel=1e-9, abs=1e-12)


@given(st.floats(0.5, 0.999), st.floats(1, 5000))
@example(0.95, 1.0)
@example(0.99, 4.0)
def test_the_quantile_is_that_of_scipy(confidence: float, freedom: float) -> None:
    expected = float(stats.t.ppf((1 + confidence) / 2, freedom))
    assert t_quantile(confidence, freedom) == pytest.approx(expected, rel=1e-6)


def test_the_quantile_of_very_many_degrees_is_that_of_the_normal() -> None:
    assert t_quantile(0.95, 10**6) == pytest.approx(float(stats.norm.ppf(0.975)), rel=1e-9)


@given(st.floats(-50, 50) | st.floats(0, 1e6), st.just(1.0) | st.just(2.0) | st.floats(1, 5000))
def test_the_p_value_is_that_of_scipy(t: float, freedom: float) -> None:
    expected = float(2 * stats.t.sf(abs(t), freedom))
    assert two_sided_p(t, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("count", [5, 60, 800])
def test_a_paired_difference_is_the_paired_t_test(count: int) -> None:
    ours, theirs = normal(1, count, 0.3), normal(2, count)
    found = paired_difference(named(ours), named(theirs))
    test = stats.ttest_rel(ours, theirs)
    interval = test.confidence_interval(0.95)
    assert found.p_value == pytest.approx(float(test.pvalue), rel=1e-6)
    assert found.interval == pytest.approx((float(interval.low), float(interval.high)), rel=1e-6)


@pytest.mark.parametrize(("clusters", "size"), [(6, 4), (40, 3)])
def test_equal_clusters_are_the_standard_error_of_their_means(clusters: int, size: int) -> None:
    values = normal(3, clusters * size)
    groups = [index // size for index in range(len(values))]
    means = [sum(values[at : at + size]) / size for at in range(0, len(values), size)]
    assert standard_error(values, groups) == pytest.approx(float(stats.sem(means)))


@pytest.mark.parametrize("sizes", [(5, 1), (3, 3, 1), (20, *[1] * 11), (9, 4, 4, 2, 1)])
def test_unequal_clusters_have_the_error_and_freedom_of_the_cr2_matrices(
    sizes: tuple[int, ...],
) -> None:
    """Bell & McCaffrey 2002, with the whole matrices of a regression on a constant."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    values, n = np.array(normal(4, sum(sizes))), sum(sizes)
    rest = np.eye(n) - np.full((n, n), 1 / n)
    columns, variance = [], 0.0
    for group in range(len(sizes)):
        rows = groups == group
        power, vectors = np.linalg.eigh(rest[np.ix_(rows, rows)])
        root = vectors @ np.diag(power**-0.5) @ vectors.T
        weights = root @ np.ones(rows.sum()) / n
        variance += float(weights @ (rest @ values)[rows]) ** 2
        columns.append(rest[:, rows] @ weights)
    gram = np.array([[float(one @ other) for other in columns] for one in columns])
    freedom = np.trace(gram) ** 2 / np.trace(gram @ gram)
    assert standard_error([*values], [*groups]) == pytest.approx(variance**0.5)
    assert cluster_freedom([*groups]) == pytest.approx(freedom)


@given(st.integers(0, 300), st.integers(0, 300))
@example(0, 0)
@example(7, 7)
def test_mcnemar_is_the_binomial_test_of_what_differs(gains: int, losses: int) -> None:
    discordant = gains + losses
    expected = float(stats.binomtest(gains, discordant).pvalue) if discordant else 1.0
    assert mcnemar_p(gains, losses) == pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize(("first", "second"), [(8, 12), (30, 500), (4, 4)])
def test_a_weighted_difference_has_the_error_of_welchs_test(first: int, second: int) -> None:
    """Two independent means with the weights 1 and −1 are Welch's t-test."""
    ours, theirs = normal(4, first, 0.5), [3 * value for value in normal(5, second)]
    zero = dict.fromkeys(range(max(first, second)), 0.0)
    parts = [(1.0, paired_difference(named(ours), zero))]
    parts += [(-1.0, paired_difference(named(theirs), zero))]
    found = weighted_difference(parts)
    test = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = test.confidence_interval(0.95)
    assert found.p_value == pytest.approx(float(test.pvalue), rel=1e-6)
    assert found.interval == pytest.approx((float(interval.low), float(interval.high)), rel=1e-6)


def test_one_part_alone_is_its_own_difference() -> None:
    found = paired_difference(named(normal(6, 30, 0.4)), named(normal(7, 30)))
    alone = weighted_difference([(1.0, found)])
    assert alone.n == found.n
    assert alone.p_value == pytest.approx(found.p_value)
    assert alone.interval == pytest.approx(found.interval)


def test_parts_that_never_vary_take_the_sign_test_over_all_samples() -> None:
    lower = paired_difference(named([0.0] * 4), named([1.0] * 4))
    equal = paired_difference(named([1.0] * 9), named([1.0] * 9))
    assert weighted_difference([(0.5, lower), (0.5, equal)]).p_value == 2**-3
    assert weighted_difference([(0.5, lower), (0.5, lower.reversed())]).p_value == 1.0
    assert weighted_difference([(1.0, Difference(n=1, difference=0.5))]).stderr is None
    assert weighted_difference([(1.0, lower), (1.0, Difference(n=0, difference=None))]).n == 0


def test_samples_for_an_effect_agree_with_the_papers_example() -> None:
    """arXiv 2411.00640, section 5: 969 questions find a difference of 3 points, if the variance of
    the paired differences is 1/9. The paper takes the variance as known; to estimate it needs two
    more."""
    assert samples_to_detect(0.03, (1 / 9) ** 0.5) == 971


def test_samples_for_an_effect_detect_it() -> None:
    n = samples_to_detect(0.1, 0.5)
    assert n == 199  # R's power.t.test(type = "paired") gives 198.15
    assert detectable(0.5 / n**0.5, n - 1) == pytest.approx(0.1, rel=0.01)
    with pytest.raises(ValueError, match="above 0"):
        samples_to_detect(0, 1)


@pytest.mark.parametrize(
    ("gains", "losses"),
    [(0.12, 0.02), (0.10, 0.0), (0.06, 0.01), (0.25, 0.15), (0.30, 0.10), (0.04, 0.02)],
)
def test_samples_of_right_and_wrong_answers_detect_it_by_mcnemar(
    gains: float, losses: float
) -> None:
    effect = gains - losses
    n = samples_to_detect(effect, (gains + losses - effect**2) ** 0.5, is_binary=True)
    drawn = np.random.default_rng(2).multinomial(n, [gains, losses, 1 - gains - losses], 2000)
    found = sum(mcnemar_p(int(won), int(lost)) < 0.05 for won, lost, _ in drawn)
    assert 0.77 < found / 2000 < 0.94


@pytest.mark.parametrize("freedom", [1, 2, 4, 30, 99, 2000, 20_000])
@pytest.mark.parametrize("family", [1, 20, 4950])
def test_a_detectable_difference_has_the_power_of_the_noncentral_t(
    freedom: int, family: int
) -> None:
    effect = detectable(1.0, freedom, family=family)
    critical = stats.t.isf(0.025 / family, freedom)
    if freedom == 1:  # a closed form of u = |Z|, where scipy's is not precise
        power = quad(
            lambda u: 2 * stats.norm.pdf(u) * stats.norm.cdf(effect - critical * u),
            0,
            9,
            points=[min(8.9, effect / critical)],
        )[0]
    else:
        power = float(stats.nct.sf(critical, freedom, effect))
    assert power == pytest.approx(0.8, abs=0.003)
