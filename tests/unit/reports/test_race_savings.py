"""What reports say of a race."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet.domain.event import Event
from benchfleet.domain.race import RaceHistory, RaceStop
from benchfleet.reports.race_savings import MAX_SENTENCES, RaceSaving, race_savings, saved_texts

from .conftest import Study

LOOKS = (
    "The tables' intervals and p-values do not allow for the race's looks. Of a stopped config, "
    "cite the anytime interval."
)


def stopped(
    study: Study, config: str, *, model: str = "tiny", ended: int = 3, cancelled: int = 7
) -> Event:
    """A config with so many repeats that ended (4 s each) and that a race cancelled."""
    for repeat in range(ended):
        study.done(config, [1.0, 0.0], model=model, repeat=repeat)
    cells = [study.cell(config, model=model, repeat=ended + n) for n in range(cancelled)]
    for cell in cells:
        study.record(cell, "cancelled")
        object.__setattr__(study.records[-1], "attempt", 0)
    return RaceStop(
        model=model,
        config=config,
        benchmark="recall_512",
        leader="dense",
        samples=50 * ended,
        difference=-0.12,
        interval=(-0.2, -0.04),
        confidence=0.95,
        cells=tuple(str(cell.fingerprint) for cell in cells),
    ).event()


def savings(study: Study, events: Sequence[Event]) -> list[RaceSaving]:
    return list(race_savings(RaceHistory.of(events), study.cells, study.records))


def test_a_saving_says_what_was_stopped_why_and_how_much_time_that_saved(study: Study) -> None:
    (one,) = savings(study, [stopped(study, "c3")])
    assert saved_texts([one]) == [
        "Race: c3 stopped on recall_512 after 150 samples: 12 points lower than dense (anytime "
        "95 % interval −20 to −4); 7 of 10 repeats left out, about 28 s of slot time saved.",
        LOOKS,
    ]
    assert one.to_dict()["saved_seconds"] == 28


def test_several_are_summed_up_and_name_their_models(study: Study) -> None:
    events = [stopped(study, "c3"), stopped(study, "c3", model="large", ended=1, cancelled=1)]
    first, second, in_all, looks = saved_texts(savings(study, events))
    assert first.startswith("Race: tiny / c3 stopped")
    assert "large / c3 stopped on recall_512 after 50 samples" in second
    assert "1 of 2 repeats left out, about 4.0 s of slot time saved" in second
    assert in_all == "In all, the race left out 8 cells, about 32 s of slot time saved."
    assert looks == LOOKS


def test_cells_that_were_brought_back_or_cancelled_by_people_are_no_saving(study: Study) -> None:
    event = stopped(study, "c3", cancelled=2)
    study.record(study.cell("dense", repeat=9), "cancelled")
    assert savings(study, []) == []
    (one,) = savings(study, [event])
    assert (one.cells, one.of) == (2, 5)
    for record in study.records:
        if record.fingerprint in event.data["cells"]:
            object.__setattr__(record, "state", "success")
    assert savings(study, [event]) == []


def test_a_cell_that_had_begun_saves_no_known_time(study: Study) -> None:
    event = stopped(study, "c3", cancelled=2)
    object.__setattr__(study.records[-1], "attempt", 1)
    (one,) = savings(study, [event])
    assert (one.cells, one.seconds) == (2, 4)


def test_of_many_the_first_have_a_sentence(study: Study) -> None:
    events = [stopped(study, f"c{n}", ended=1, cancelled=1) for n in range(8)]
    *some, more, in_all, _ = saved_texts(savings(study, events))
    assert len(some) == MAX_SENTENCES
    assert more == "The race stopped 3 more; `benchfleet race` lists them."
    assert "8 cells, about 32 s" in in_all
