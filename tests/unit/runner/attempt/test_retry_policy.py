"""Whether a failure is tried again, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchfleet.domain.attempt import Advice, Outcome
from benchfleet.domain.failure import Failure
from benchfleet.runner.attempt.retry_policy import (
    MAX_DELAY_S,
    MAX_REQUESTED_DELAY_S,
    AttemptMemory,
    charged,
    first_reason,
    next_advice,
    retry_in,
)

TRANSIENT = Failure(stage="benchmark", kind="slot_lost", message="", retryable=True)
PERMANENT = Failure(stage="load", kind="model_not_found", message="")
LOST_HOST = Failure(stage="benchmark", kind="host_lost", message="")


def delay(failure: Failure, tries: int, *, allowed: int = 99, draw: float = 1.0) -> float | None:
    uses_try = charged(failure)
    return retry_in(failure, charged=uses_try, tries=tries, allowed=allowed, random=lambda: draw)


def test_a_permanent_failure_is_not_tried_again() -> None:
    assert delay(PERMANENT, 1) is None


def test_delays_double_up_to_a_limit() -> None:
    assert [delay(TRANSIENT, tries) for tries in (1, 2, 3)] == [2.0, 4.0, 8.0]
    assert delay(TRANSIENT, 30) == MAX_DELAY_S


def test_a_random_half_of_the_delay_is_left_off() -> None:
    assert delay(TRANSIENT, 3, draw=0.0) == 4.0


def test_a_server_s_own_delay_comes_first_up_to_an_hour() -> None:
    limited = replace(TRANSIENT, kind="rate_limited", retry_after_s=100.0)
    assert delay(limited, 1, draw=0.0) == 101.0
    assert delay(replace(limited, retry_after_s=1e9), 1) == MAX_REQUESTED_DELAY_S + 2.0
    assert delay(limited, 3, allowed=3) is None


def test_the_last_try_is_the_last() -> None:
    assert delay(TRANSIENT, 3, allowed=3) is None
    assert delay(TRANSIENT, 2, allowed=3) is not None


def test_a_lost_host_uses_up_no_try() -> None:
    assert not charged(LOST_HOST)
    assert delay(LOST_HOST, 99, allowed=1) == 0.0


def test_a_cell_that_loses_one_host_after_another_pays_for_it() -> None:
    assert not charged(LOST_HOST, before=9)
    assert charged(LOST_HOST, before=10)


def test_a_disk_that_is_always_full_is_paid_for_unless_it_is_that_of_the_results() -> None:
    scratch = Failure(stage="benchmark", kind="disk_full", message="")
    assert not charged(scratch, before=2)
    assert charged(scratch, before=3)
    assert not charged(Failure(stage="collect", kind="disk_full", message=""), before=99)


OOM = Failure(stage="benchmark", kind="oom", message="no room", retryable=True)
GB = 10**9


def test_each_lack_of_memory_is_answered_by_one_step_and_the_steps_end() -> None:
    had, given, steps = AttemptMemory(batch_size=5, shared=True, larger=26 * GB), Advice(), []
    while advice := next_advice(OOM, given, had):
        steps.append(str(advice))
        had = replace(
            had,
            batch_size=min(had.batch_size, advice.batch_size or 99),
            shared=had.shared and not advice.alone,
        )
        given = advice
    assert steps == [
        "with batch size 2",
        "with batch size 1",
        "with batch size 1, alone",
        "with batch size 1, alone, on at least 26 GB",
    ]


def test_a_smaller_batch_is_no_help_where_the_model_did_not_fit() -> None:
    load = replace(OOM, stage="load")
    assert next_advice(load, Advice(), AttemptMemory(batch_size=8)) is None
    assert next_advice(load, Advice(), AttemptMemory(batch_size=8, shared=True)) == Advice(
        alone=True
    )


@pytest.mark.parametrize(
    "had", [AttemptMemory(), AttemptMemory(batch_size=1, shared=False, larger=0)]
)
def test_where_nothing_can_be_changed_no_step_is_left(had: AttemptMemory) -> None:
    assert next_advice(OOM, Advice(), had) is None


def test_only_a_lack_of_memory_that_may_pass_is_answered_by_steps() -> None:
    had = AttemptMemory(batch_size=8, shared=True, larger=26 * GB)
    assert next_advice(TRANSIENT, Advice(), had) is None
    assert next_advice(replace(OOM, retryable=False), Advice(), had) is None


def ended(*failures: Failure) -> Outcome:
    outcome = Outcome(state="failed", failure=failures[0])
    for failure in failures[1:]:
        outcome = Outcome(state="failed", failure=failure, first=first_reason(outcome, failure))
    return outcome


def test_the_first_reason_stays_whatever_comes_after_it() -> None:
    assert ended(OOM, TRANSIENT, PERMANENT, LOST_HOST).reason == OOM
    assert ended(PERMANENT).first is None


def test_the_fault_of_a_machine_gives_way_to_the_first_reason_of_the_cell_itself() -> None:
    assert ended(LOST_HOST, LOST_HOST, OOM, TRANSIENT).reason == OOM
    assert ended(LOST_HOST, LOST_HOST).reason == LOST_HOST
