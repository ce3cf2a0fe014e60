"""``since`` and ``until``: results by when they ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from benchfleet.campaign.dates import split_dates
from benchfleet.errors import CampaignError


@dataclass
class Attempt:
    ended_at: float | None


def at(*numbers: int) -> Attempt:
    return Attempt(datetime(*numbers).timestamp())  # type: ignore[arg-type]


def test_a_date_begins_at_local_midnight_and_splits_results_in_two() -> None:
    since, others = split_dates(["since=2026-11-01", "models=m1"])
    until, _ = split_dates(["until=2026-11-01"])
    assert others == ["models=m1"]
    for attempt, is_since in ((at(2026, 10, 31, 23, 59), False), (at(2026, 11, 1), True)):
        assert since.includes([at(2025, 1, 1), attempt]) is is_since
        assert until.includes([attempt]) is not is_since
    assert not since.includes([])
    assert not since.includes([Attempt(None)])
    assert not split_dates(["models=m1"])[0]


def test_a_time_may_follow_a_date() -> None:
    dates, _ = split_dates(["since=2026-11-01T12:30", "until=2026-11-01T12:31:00"])
    assert dates.includes([at(2026, 11, 1, 12, 30, 59)])
    assert not dates.includes([at(2026, 11, 1, 12, 31)])


def test_a_wrong_date_is_named() -> None:
    with pytest.raises(CampaignError) as error:
        split_dates(["since=yesterday", "until=2026-13-01"])
    messages = [(one.key, one.message) for one in error.value.mistakes]
    assert [key for key, _ in messages] == ["since=yesterday", "until=2026-13-01"]
    assert "invalid date 'yesterday': use since=2026-11-01" in messages[0][1]
