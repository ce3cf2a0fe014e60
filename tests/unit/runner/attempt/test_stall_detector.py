"""When a cell is stuck, and when it only looks so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchfleet.runner.attempt.stall_detector import SampleHistory, stall_reason

Came = tuple[float, int, int]  # seconds since the one before, prompt tokens, completion tokens


def history(came: Iterable[Came], *, began: float = 100.0) -> tuple[SampleHistory, float]:
    """The history, and what time it is when the last of it came."""
    found, now = SampleHistory(began), began
    for seconds, prompt, completion in came:
        now += seconds
        found.sample(now, prompt_tokens=prompt, completion_tokens=completion)
    return found, now


@pytest.mark.parametrize(
    ("samples", "every", "silent", "limit", "missing", "stuck"),
    [
        (5, 1.0, 601, None, True, True),
        (5, 1.0, 599, None, True, False),
        (4, 1.0, 9999, None, True, False),  # too few to know what is usual
        (5, 60.0, 1199, None, True, False),  # twenty times the longest wait
        (5, 60.0, 1201, None, True, True),
        (5, 1.0, 9999, None, False, False),  # it scores, or nobody knows what is to come
        (0, 1.0, 61, 60.0, False, True),
        (0, 1.0, 59, 60.0, True, False),
        (9, 1.0, 5000, 6000.0, True, False),  # a limit that is set goes before the usual one
    ],
)
def test_silence_is_reported_after_the_limit_or_the_usual_time(
    samples: int, every: float, silent: float, limit: float | None, missing: bool, stuck: bool
) -> None:
    found, now = history([(every, 10, 10)] * samples)
    assert bool(stall_reason(found, now + silent, limit=limit, missing=missing)) is stuck


def test_the_longest_wait_counts_the_one_for_the_first_sample() -> None:
    found, now = history([(100.0, 10, 10), *[(1.0, 10, 10)] * 9])
    assert stall_reason(found, now + 1999, limit=None, missing=True) == ""
    output = stall_reason(found, now + 2001, limit=None, missing=True)
    assert output.startswith("no sample came for 2001 s; the longest wait before was 100 s")


def test_whatever_comes_is_a_sign_of_life() -> None:
    found, now = history([(1.0, 10, 10)] * 9)
    found.sign(now + 500)
    assert stall_reason(found, now + 1099, limit=None, missing=True) == ""
    assert stall_reason(found, now + 1101, limit=None, missing=True) != ""


def test_a_time_in_which_nobody_listened_counts_for_nothing() -> None:
    found, now = history([(1.0, 10, 10)] * 9)
    found.excuse(5000)
    assert stall_reason(found, now + 5500, limit=None, missing=True) == ""
    assert stall_reason(found, now + 5601, limit=None, missing=True) != ""


USUAL = [(2.0, 1000, 50)] * 20


@pytest.mark.parametrize(
    ("then", "stuck"),
    [
        ([(60.0, 1000, 50)] * 5, True),
        ([(60.0, 1000, 50)] * 4, False),  # too few
        ([(30.0, 1000, 50)] * 5, False),  # a fifteenth
        ([(60.0, 1000, 50)] * 4 + [(2.0, 1000, 50)], False),  # it is over
        ([(60.0, 1000, 50)] * 3 + [(2.0, 1000, 50)] + [(60.0, 1000, 50)] * 3, False),
        ([(60.0, 6000, 50)] * 5, False),  # longer prompts: 36 times the attention
        ([(60.0, 1000, 200)] * 5, False),  # longer answers
        ([(60.0, 1400, 60)] * 5, True),  # a little longer
        ([(60.0, 10, 1)] * 5, True),  # shorter ones should have been faster
        ([(600.0, 1000, 50)] * 5, True),
    ],
)
def test_a_collapse_is_reported_where_the_lengths_do_not_explain_it(
    then: Sequence[Came], stuck: bool
) -> None:
    found, now = history([*USUAL, *then])
    assert bool(stall_reason(found, now, limit=None, missing=True)) is stuck


def test_a_collapse_must_last_as_long_as_the_limit_where_one_is_set() -> None:
    slow = (60.0, 1000, 50)
    found, now = history([*USUAL, *[slow] * 14])
    assert stall_reason(found, now, limit=900, missing=True) == ""
    found, now = history([*USUAL, *[slow] * 15])
    output = stall_reason(found, now, limit=900, missing=True)
    expected = "its throughput collapsed: 1 samples a minute in the last 900 s, and 30 before"
    assert output == expected


def test_nothing_is_reported_of_samples_without_lengths() -> None:
    found, now = history([*[(2.0, 0, 0)] * 20, *[(60.0, 0, 0)] * 9])
    assert stall_reason(found, now, limit=None, missing=True) == ""


def test_samples_of_a_batch_come_together_and_are_one_step() -> None:
    def batches(seconds: float, count: int) -> list[Came]:
        return [(seconds if n % 8 == 0 else 0.001, 1000, 50) for n in range(8 * count)]

    found, _ = history(batches(8.0, 12))
    assert {round(step.seconds) for step in found.steps()} == {8}
    assert {step.samples for step in found.steps()} == {8}
    found, now = history([*batches(8.0, 12), *batches(200.0, 5)])
    assert "throughput collapsed" in stall_reason(found, now, limit=None, missing=True)


def test_a_fast_cell_s_history_stays_small() -> None:
    found, _ = history([(0.01, 100, 1)] * 200_000)
    assert len(found.steps()) <= 501


costs = st.floats(min_value=0, max_value=10, allow_nan=False)
texts = st.tuples(st.integers(1, 200_000), st.integers(0, 5_000))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    cost=st.tuples(costs, costs, costs, costs, costs),
    lengths=st.lists(texts, min_size=16, max_size=60),
    ordered=st.sampled_from(["as they come", "growing", "shrinking"]),
    noise=st.lists(st.floats(1.0, 3.9), min_size=60, max_size=60),
)
def test_no_cost_by_length_is_ever_taken_for_a_collapse(
    cost: tuple[float, ...],
    lengths: list[tuple[int, int]],
    ordered: str,
    noise: list[float],
) -> None:
    """Whatever samples, prompts, attention and answers cost, and three times that by chance."""
    a, b, c, d, e = cost[0], cost[1] / 1e3, cost[2] / 1e6, cost[3] / 1e2, cost[4] / 1e6
    if ordered != "as they come":
        lengths.sort(reverse=ordered == "shrinking")
    found, now = SampleHistory(0.0), 0.0
    for (p, g), chance in zip(lengths, noise, strict=False):
        now += (a + b * p + c * p * p + d * g + e * g * (p + g)) * chance
        found.sample(now, prompt_tokens=p, completion_tokens=g)
        assert stall_reason(found, now, limit=None, missing=True) == ""


@settings(deadline=None)
@given(
    usual=st.floats(1.0, 60.0),
    slower=st.floats(21.0, 1000.0),
    prompt=st.integers(1, 100_000),
    completion=st.integers(1, 1000),
)
def test_the_same_work_that_takes_over_twenty_times_as_long_is_reported(
    usual: float, slower: float, prompt: int, completion: int
) -> None:
    before = [(usual, prompt, completion)] * 12
    after = [(usual * slower, prompt, completion)] * 6
    found, now = history([*before, *after])
    assert "throughput collapsed" in stall_reason(found, now, limit=None, missing=True)
