"""Whether a failure is tried again, and when."""

from __future__ import annotations

from benchfleet.domain.failure import Failure
from benchfleet.runner.retry import LONGEST_DELAY, charged, retry_in

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
    assert delay(TRANSIENT, 30) == LONGEST_DELAY


def test_a_random_half_of_the_delay_is_left_off() -> None:
    assert delay(TRANSIENT, 3, draw=0.0) == 4.0


def test_the_last_try_is_the_last() -> None:
    assert delay(TRANSIENT, 3, allowed=3) is None
    assert delay(TRANSIENT, 2, allowed=3) is not None


def test_a_lost_host_uses_up_no_try() -> None:
    assert not charged(LOST_HOST)
    assert delay(LOST_HOST, 99, allowed=1) == 0.0


def test_a_cell_that_loses_one_host_after_another_pays_for_it() -> None:
    assert not charged(LOST_HOST, losses=9)
    assert charged(LOST_HOST, losses=10)
    assert not charged(Failure(stage="collect", kind="disk_full", message=""), losses=99)
