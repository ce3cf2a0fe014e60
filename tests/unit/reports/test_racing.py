"""Which configs a race stops, on results made by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from benchfleet.domain.event import Event
from benchfleet.domain.race import RACE_STOPPED, RaceHistory, RaceSettings, RaceStop
from benchfleet.reports.race_standings import Race
from benchfleet.reports.racing import race_of
from benchfleet.results.read import SampleScores

from .conftest import Study

NONE, USUAL = RaceHistory(), RaceSettings()


def answers(share: float, seed: int, samples: int = 60) -> list[float]:
    """So many right answers, to questions of the same difficulty for all configs."""
    rng = random.Random(seed)
    return [float(rng.random() < share) for _ in range(samples)]


def raced(study: Study, settings: RaceSettings = USUAL, history: RaceHistory = NONE) -> Race:
    return race_of(
        settings,
        study.cells,
        study.records,
        lambda record: SampleScores(scores=study.samples.get(record.fingerprint, {})),
        history,
    )


def verdicts(
    study: Study, settings: RaceSettings = USUAL, history: RaceHistory = NONE
) -> dict[str, str]:
    (group,) = raced(study, settings, history).groups
    return {one.config: one.verdict for one in group.standings}


def pending(study: Study, *configs: str, repeats: Sequence[int] = (1, 2)) -> None:
    """Cells of these configs that wait."""
    for config in configs:
        for repeat in repeats:
            study.record(study.cell(config, repeat=repeat), "pending")


@pytest.fixture
def halfway(study: Study) -> Study:
    """After the first of three repeats: `window` is far behind, `top_k` a little."""
    study.done("dense", answers(0.95, 1))
    study.done("window", answers(0.3, 1))
    study.done("top_k", answers(0.9, 1))
    pending(study, "dense", "window", "top_k")
    return study


def test_only_what_is_surely_worse_stops(halfway: Study) -> None:
    assert verdicts(halfway) == {"dense": "leads", "window": "stops", "top_k": "in"}
    race = raced(halfway)
    assert race.comparisons == 6
    (stop,) = race.stops(by="lab1")
    assert (stop.config, stop.leader, stop.samples, stop.by) == ("window", "dense", 60, "lab1")
    assert stop.interval[0] < stop.difference < stop.interval[1] < 0
    waiting = [cell.fingerprint for cell in halfway.cells if cell.config.name == "window"][1:]
    assert sorted(stop.cells) == sorted(waiting)


def test_a_higher_confidence_needs_more_samples(halfway: Study) -> None:
    assert verdicts(halfway, RaceSettings(confidence=1 - 1e-12))["window"] == "in"


def test_the_baseline_and_named_configs_are_never_stopped(study: Study) -> None:
    study.done("dense", answers(0.2, 1))
    study.done("window", answers(0.2, 2))
    study.done("top_k", answers(0.95, 1))
    pending(study, "dense", "window", "top_k")
    leads = {"top_k": "leads"}
    assert verdicts(study) == {"dense": "kept", "window": "stops", **leads}
    named = RaceSettings(keep=("win*",))
    assert verdicts(study, named) == {"dense": "stops", "window": "kept", **leads}
    nothing = RaceSettings(keep=())
    assert verdicts(study, nothing) == {"dense": "stops", "window": "stops", **leads}


def test_more_groups_share_the_error(study: Study) -> None:
    for subset in ("128", "512"):
        study.done("dense", answers(0.95, 1), subset=subset)
        study.done("window", answers(0.3, 1), subset=subset)
        for config in ("dense", "window"):
            study.record(study.cell(config, subset=subset, repeat=1), "pending")
    race = raced(study)
    assert race.comparisons == 4
    assert [stop.benchmark for stop in race.stops(by="")] == ["recall_128", "recall_512"]
    alone = raced(study_of(study, "512"))
    assert alone.comparisons == 2
    assert interval(alone, 0)[1] < interval(race, 1)[1]


def study_of(study: Study, subset: str) -> Study:
    """The part of a study with this subset."""
    one = type(study)(samples=study.samples)
    one.cells = [cell for cell in study.cells if cell.workload.subset == subset]
    among = {cell.fingerprint for cell in one.cells}
    one.records = [record for record in study.records if record.fingerprint in among]
    return one


def interval(race: Race, group: int) -> tuple[float, float]:
    (one,) = (one for one in race.groups[group].standings if one.difference)
    assert one.difference is not None
    return one.difference.interval


def compared(race: Race) -> int:
    """On how many samples the second config of the one group is compared."""
    (group,) = race.groups
    difference = group.standings[1].difference
    assert difference is not None
    return difference.samples


def test_a_repeat_counts_once_all_before_it_are_over(study: Study) -> None:
    for repeat in (0, 1, 2):
        study.done("dense", answers(0.95, repeat), repeat=repeat)
    study.done("window", answers(0.3, 0, samples=60), repeat=0)
    study.record(study.cell("window", repeat=1), "running")
    study.done("window", answers(0.3, 2), repeat=2)
    assert compared(raced(study)) == 60
    study.records[4] = study.records[4].__class__(**{**vars(study.records[4]), "state": "failed"})
    assert compared(raced(study)) == 120


def test_results_that_are_not_here_decide_nothing(halfway: Study) -> None:
    halfway.samples.clear()
    (group,) = raced(halfway).groups
    assert {one.verdict for one in group.standings} == {"no result"}
    assert group.leader == ""


def test_one_repeat_or_one_config_is_no_race(study: Study) -> None:
    study.done("dense", answers(0.95, 1))
    study.done("window", answers(0.3, 1))
    study.done("dense", answers(0.3, 1), subset="128")
    study.done("dense", answers(0.3, 2), subset="128", repeat=1)
    assert raced(study).groups == ()


@pytest.mark.parametrize(
    ("values", "more", "note"),
    [
        ([0.2, 3.0], {}, "a race needs scores from 0 to 1"),
        ([0.2, 0.4], {"headline": 0.9}, "the score is not the mean of its samples' scores"),
        ([0.2, 0.4], {"reported": {"ranked": False}}, "a higher score is not better"),
    ],
)
def test_what_cannot_be_bet_on_does_not_race(
    study: Study, values: Sequence[float], more: Mapping[str, Any], note: str
) -> None:
    study.done("dense", values, **more)
    study.done("window", values, **more)
    pending(study, "dense", "window")
    race = raced(study)
    assert race.groups[0].note == note
    assert not list(race.stops(by=""))


def test_a_config_that_was_stopped_or_brought_back_is_not_stopped_again(halfway: Study) -> None:
    (stop,) = raced(halfway).stops(by="")
    stopped = stop.event()
    cancelled = [
        record.__class__(**{**vars(record), "state": "cancelled"})
        if record.fingerprint in stop.cells
        else record
        for record in halfway.records
    ]
    active, halfway.records = halfway.records, cancelled
    history = RaceHistory.of([stopped])
    assert verdicts(halfway, history=history)["window"] == "stopped"
    (group,) = raced(halfway, history=history).groups
    window = next(one for one in group.standings if one.config == "window").to_dict()
    assert (window["compared_with"], window["samples"]) == ("dense", stop.samples)
    assert window["interval"] == list(stop.interval)  # by which it was stopped
    assert not list(raced(halfway, history=history).stops(by=""))
    dense = next(one for one in halfway.samples.values() if one)
    kept = dict(dense)
    dense[next(iter(dense))] = 3.0
    (group,) = raced(halfway, history=history).groups
    assert group.note.endswith("; `benchfleet retry --raced` brings back what it stopped before")
    dense.update(kept)
    halfway.records = active
    retried = [stopped, Event(kind="retry_asked", fingerprint=stop.cells[0])]
    assert verdicts(halfway, history=RaceHistory.of(retried))["window"] == "brought back"
    # An interrupted decision left cells that run: they are stopped by the next one.
    assert verdicts(halfway, history=history)["window"] == "stops"
    assert stopped.kind == RACE_STOPPED


def test_a_stopped_config_leads_no_more(study: Study) -> None:
    study.done("dense", answers(0.9, 1))
    study.done("window", answers(1.0, 1))
    pending(study, "dense", "window")
    assert verdicts(study) == {"dense": "in", "window": "leads"}
    (group,) = raced(study).groups
    stop = next(iter(raced_stop(study)))
    assert verdicts(study, history=RaceHistory.of([stop.event()]))["dense"] == "leads"
    assert group.leader == "window"


def raced_stop(study: Study) -> Iterator[RaceStop]:
    """A stop of the leader, as an earlier decision may have made it."""
    yield RaceStop(
        model="tiny",
        config="window",
        benchmark="recall_512",
        leader="dense",
        samples=9,
        difference=-0.4,
        interval=(-0.6, -0.1),
        confidence=0.95,
        cells=(),
    )


def test_equal_configs_are_never_stopped_repeat_after_repeat(study: Study) -> None:
    rng = random.Random(9)
    for repeat in range(12):
        for config in ("dense", "window", "top_k"):
            study.done(config, [float(rng.random() < 0.7) for _ in range(20)], repeat=repeat)
        study.record(study.cell("window", repeat=90 + repeat), "pending")
        assert "stops" not in verdicts(study).values()


def test_what_has_no_score_of_each_sample_does_not_race(study: Study) -> None:
    for config in ("dense", "window"):
        study.done(config, [], headline=0.5)
    pending(study, "dense", "window")
    (group,) = raced(study).groups
    assert group.note == "it has no score of each sample"
    assert verdicts(study) == {"dense": "does not race", "window": "does not race"}
