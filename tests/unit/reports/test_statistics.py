"""Standard errors, paired differences and Holm's correction."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchfleet.domain.averages import mean, standard_error
from benchfleet.reports.ranking import corrected
from benchfleet.reports.statistics import (
    Difference,
    holm,
    mcnemar_p,
    paired_difference,
)

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def named(values: str | Sequence[float | str]) -> dict[int, Any]:
    return dict(enumerate(values))


def test_standard_error_is_unknown_below_two_values() -> None:
    assert standard_error([]) is None
    assert standard_error([0.5]) is None


def test_mean_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean([])


def test_paired_difference_worked_by_hand() -> None:
    # differences 1, 2, 3: mean 2, s = 1, t = 2 √3 with 2 degrees of freedom
    found = paired_difference(named([2.0, 4.0, 6.0]), named([1.0, 2.0, 3.0]))
    assert found.n == 3
    assert found.difference == 2
    assert found.stderr == pytest.approx(1 / math.sqrt(3))
    assert found.interval == pytest.approx(
        (2 - 4.3027 / math.sqrt(3), 2 + 4.3027 / math.sqrt(3)), abs=1e-4
    )
    assert found.p_value == pytest.approx(0.0741799, abs=1e-6)
    assert not found.sure


def test_pairing_takes_out_what_is_hard_for_both() -> None:
    rng = random.Random(1)
    hardness = [rng.random() for _ in range(50)]
    ours = [value + 0.02 + 0.01 * rng.random() for value in hardness]
    found = paired_difference(named(ours), named(hardness))
    assert found.sure
    whole = standard_error(hardness)
    assert found.stderr is not None
    assert whole is not None
    assert found.stderr < whole / 10


def test_paired_difference_uses_shared_keys_alone() -> None:
    found = paired_difference({"a": 1.0, "b": 0.0, "x": 100.0}, {"b": 1.0, "a": 1.0, "y": -5.0})
    assert found.n == 2
    assert found.difference == -0.5


def test_difference_of_nothing_shared_is_unknown() -> None:
    found = paired_difference({"a": 1.0}, {"b": 1.0})
    assert found == Difference(n=0, difference=None)
    assert not found.sure
    assert not found.significantly_higher
    assert not found.significantly_lower


def test_difference_of_one_sample_is_never_sure() -> None:
    found = paired_difference({"a": 1.0}, {"a": 0.0})
    assert (found.n, found.difference, found.stderr, found.p_value) == (1, 1.0, None, None)
    assert not found.sure


def test_equal_scores_do_not_differ_significantly() -> None:
    found = paired_difference(named([0.1, 0.7, 0.2]), named([0.1, 0.7, 0.2]))
    assert (found.difference, found.stderr, found.p_value, found.interval) == (0, 0, 1, None)
    assert not found.sure


@pytest.mark.parametrize(("n", "sure"), [(2, False), (5, False), (6, True), (100, True)])
def test_equal_differences_are_judged_by_the_sign_test(n: int, sure: bool) -> None:
    found = paired_difference(named([0.3] * n), named([0.2] * n))
    assert found.p_value == 2.0 ** (1 - n)
    assert found.interval is None
    assert found.sure is sure


def test_noise_of_the_arithmetic_is_no_difference() -> None:
    found = paired_difference(named([0.1 + 0.2, 0.3]), named([0.3, 0.1 + 0.2]))
    assert (found.difference, found.p_value) == (0, 1)


@given(
    st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=2, max_size=30),
)
def test_sure_is_an_interval_that_excludes_zero(pairs: Sequence[tuple[float, float]]) -> None:
    found = paired_difference(named([a for a, _ in pairs]), named([b for _, b in pairs]))
    assume(found.interval is not None and found.test == "t")
    assert found.interval is not None
    low, high = found.interval
    assume(min(abs(low), abs(high)) > 1e-9)
    assert found.sure == (low > 0 or high < 0)
    assert found.significantly_higher == (low > 0)
    assert found.significantly_lower == (high < 0)


def test_the_interval_holds_the_truth_19_times_out_of_20() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(1000):
        found = paired_difference(
            named([rng.gauss(1, 1) for _ in range(8)]), named([rng.gauss(0, 1) for _ in range(8)])
        )
        assert found.interval is not None
        held += found.interval[0] <= 1 <= found.interval[1]
    assert 935 <= held <= 965


def test_clustered_standard_error_worked_by_hand() -> None:
    # mean 3; residuals −2 −1 | 0 | 1 2: cluster sums −3, 0, 3; √(9/(3/5) + 9/(3/5))/5
    values, contexts = [1.0, 2.0, 3.0, 4.0, 5.0], ["a", "a", "b", "c", "c"]
    assert standard_error(values, contexts) == pytest.approx(math.sqrt(30) / 5)
    assert standard_error(values, ["a"] * 5) is None


def test_clusters_of_one_value_change_nothing() -> None:
    values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    assert standard_error(values, range(8)) == pytest.approx(standard_error(values))
    ours, theirs = named(values), named([1.0] * 8)
    assert paired_difference(ours, theirs, named("abcdefgh")) == paired_difference(ours, theirs)


def test_questions_over_one_context_count_as_one() -> None:
    """Ten answers that all depend on their context alone are as good as one."""
    contexts = [0.1, 0.5, 0.3, 0.9, 0.2, 0.7]
    repeated = [value for value in contexts for _ in range(10)]
    of = [index // 10 for index in range(60)]
    assert standard_error(repeated, of) == pytest.approx(standard_error(contexts))
    zero, found = named([0.0] * 60), paired_difference
    clustered = found(named(repeated), zero, named(of))
    alone = found(named(contexts), named([0.0] * 6))
    assert (clustered.n, clustered.clusters) == (60, 6)
    assert clustered.p_value == pytest.approx(alone.p_value)
    assert clustered.interval == pytest.approx(alone.interval)


def test_clustered_interval_holds_the_truth_19_times_out_of_20() -> None:
    rng = random.Random(11)
    held = naive = 0
    for _ in range(400):
        shifts = [rng.gauss(0, 1) for _ in range(12)]
        ours = named([shift + rng.gauss(0, 0.3) for shift in shifts for _ in range(5)])
        zero, of = named([0.0] * 60), named([index // 5 for index in range(60)])
        for clusters in (of, None):
            interval = paired_difference(ours, zero, clusters).interval
            assert interval is not None
            held += clusters is not None and interval[0] <= 0 <= interval[1]
            naive += clusters is None and interval[0] <= 0 <= interval[1]
    assert 364 <= held <= 396
    assert naive < 300


@pytest.mark.parametrize(
    "sizes",
    [(20, *[1] * 11), (40, *[5] * 19), (30, 20, 15, 10, 8, 5, 5, 3, 2, 2), (*[10] * 5, *[1] * 10)],
)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_contexts_of_unequal_sizes_give_no_interval_that_is_too_narrow(
    sizes: tuple[int, ...], share: float
) -> None:
    """`share`: of the variance, what samples of one context have in common."""
    rng = random.Random(5)
    contexts = [name for name, size in enumerate(sizes) for _ in range(size)]
    zero, of = named([0.0] * len(contexts)), named(contexts)
    held = 0
    for _ in range(400):
        common = [rng.gauss(0, math.sqrt(share)) for _ in sizes]
        own = math.sqrt(1 - share) + 1e-3
        ours = named([common[name] + rng.gauss(0, own) for name in contexts])
        interval = paired_difference(ours, zero, of).interval
        assert interval is not None
        held += interval[0] <= 0 <= interval[1]
    assert held >= 360


def test_equal_differences_of_clusters_are_judged_by_the_sign_test_over_clusters() -> None:
    found = paired_difference(
        named([1.0, 0.0, 0.0, 1.0]), named([0.0] * 4), named(["a", "a", "b", "b"])
    )
    assert (found.p_value, found.test) == (0.5, "sign")


def test_right_and_wrong_answers_are_compared_by_mcnemar() -> None:
    ours = named([1.0] * 8 + [0.0] * 12)
    theirs = named([0.0] * 8 + [0.0] * 11 + [1.0])
    found = paired_difference(ours, theirs)
    assert found.test == "mcnemar"
    assert found.p_value == mcnemar_p(8, 1)
    assert paired_difference(named([0.5, 1, 0]), named([0, 0, 1])).test == "t"


def test_differences_are_corrected_where_they_have_a_p_value() -> None:
    small = Difference(n=9, difference=1.0, p_value=0.01)
    unknown = Difference(n=1, difference=1.0)
    found = corrected([small, unknown, replace(small, p_value=1.0)])
    assert [one.adjusted_p for one in found] == [0.02, None, 1.0]
    assert found[0].sure
    (alone,) = corrected([small], family=20)
    assert alone.adjusted_p == pytest.approx(0.2)
    assert not alone.sure


def test_holm_worked_by_hand() -> None:
    # smallest first: 4 × 0.005, 3 × 0.01, 2 × 0.03, and never below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_counts_comparisons_that_were_not_made() -> None:
    assert holm([0.01, 0.02], family=10) == pytest.approx([0.1, 0.18])
    with pytest.raises(ValueError, match="family of 1"):
        holm([0.01, 0.02], family=1)


@given(P_VALUES)
def test_holm_lies_between_the_value_and_bonferronis(values: Sequence[float]) -> None:
    for value, adjusted in zip(values, holm(values), strict=True):
        assert value <= adjusted <= min(1.0, len(values) * value)


@given(P_VALUES)
def test_holm_keeps_the_order(values: Sequence[float]) -> None:
    ranked = sorted(zip(values, holm(values), strict=True))
    assert [adjusted for _, adjusted in ranked] == sorted(adjusted for _, adjusted in ranked)


def test_sureness_follows_the_adjusted_p_value() -> None:
    plain = Difference(n=9, difference=1.0, p_value=0.03)
    assert plain.sure
    assert not Difference(n=9, difference=1.0, p_value=0.03, adjusted_p=0.09).sure


def test_difference_becomes_plain_values() -> None:
    found = paired_difference(named([2.0, 4.0, 6.0]), named([1.0, 2.0, 3.0])).to_dict()
    assert found["interval"] == [pytest.approx(-0.4841, abs=1e-4), pytest.approx(4.4841, abs=1e-4)]
    assert found["sure"] is False
    assert Difference(n=0, difference=None).to_dict()["interval"] is None
