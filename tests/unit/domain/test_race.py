"""What a ledger says of races."""

from __future__ import annotations

import json

from benchfleet.domain.event import Event
from benchfleet.domain.race import RaceHistory, RaceSettings, RaceStop
from benchfleet.testing import sample_cell
from records import record_of

ONE, TWO = sample_cell(1), sample_cell(2)


def stop(*cells: str, samples: int = 150) -> RaceStop:
    return RaceStop(
        model="m",
        config="c3",
        benchmark="recall_4096",
        leader="dense",
        samples=samples,
        difference=-0.12,
        interval=(-0.2, -0.04),
        confidence=0.95,
        cells=cells,
    )


def retry(fingerprint: str) -> Event:
    return Event(kind="retry_asked", fingerprint=fingerprint)


def test_a_stop_says_what_and_why() -> None:
    assert str(stop("a", "b")) == (
        "m / c3 stopped on recall_4096 after 150 samples: 12 points lower than dense "
        "(anytime 95 % interval −20 to −4); 2 cells cancelled"
    )


def test_a_stop_survives_the_ledger() -> None:
    event = stop("a").event()
    read = Event(kind=event.kind, data={**json.loads(json.dumps(event.data)), "moon": 1}, at=5.0)
    assert RaceStop.of_event(read) == RaceStop(**{**vars(stop("a")), "at": 5.0})


def test_the_first_decision_counts_with_the_cells_of_all() -> None:
    history = RaceHistory.of([stop("a").event(), stop("b", samples=900).event()])
    (only,) = history.stops.values()
    assert (only.samples, only.cells) == (150, ("a", "b"))
    assert history.is_over(only.key)


def test_a_retry_brings_back_its_cell_and_ends_the_race_of_its_config() -> None:
    key = stop().key
    before = RaceHistory.of([retry("a"), stop("a", "b").event()])
    assert before.is_over(key)
    after = RaceHistory.of([stop("a", "b").event(), retry("other"), retry("a")])
    assert not after.is_over(key)
    assert after.stopped_cells == {"b"}


def test_only_cells_that_a_race_cancelled_are_shown_as_skipped() -> None:
    history = RaceHistory.of([stop(ONE.fingerprint).event()])
    records = [record_of(ONE, state="cancelled"), record_of(TWO, state="cancelled")]
    assert [one.state for one in history.as_skipped(records)] == ["skipped", "cancelled"]
    done = [record_of(ONE, state="success")]
    assert history.as_skipped(done) == done


def test_settings_survive_the_ledger() -> None:
    for settings in (RaceSettings(), RaceSettings(confidence=0.9, keep=("a*",))):
        assert RaceSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
