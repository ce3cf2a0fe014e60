"""Cells that a plan gives to machines, and when another takes them, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from benchfleet.domain.plan import Plan
from benchfleet.domain.resource import Device
from benchfleet.domain.slots import SlotsCommand, device_name
from benchfleet.engines.base import AttemptRequest, HostLost, HostReady, SlotEvent, SlotId, SlotLost
from benchfleet.runner.scheduler.work_stealing import shared_evenly
from benchfleet.testing.sample_cells import sample_cell
from stage import Stage, cells, good

from .fleets import NOWHERE, host_of, host_ready, of_two, planned, ran, takes
from .timed import lasting


def test_cells_go_to_the_host_of_the_plan(stage: Stage) -> None:
    of_two(stage, slots=2)
    all_ = cells(8)
    mine, theirs = all_[::2], all_[1::2]
    stage.placement = lambda: planned(lab1=mine, lab2=theirs)
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 8}
    assert {host: sorted(found) for host, found in ran(stage).items()} == {
        "lab1": sorted(cell.id for cell in mine),
        "lab2": sorted(cell.id for cell in theirs),
    }


def test_a_host_that_would_be_idle_takes_what_it_ends_sooner(stage: Stage) -> None:
    of_two(stage)
    stage.engine.script = takes(stage, {"lab1": 10, "lab2": 10})
    all_ = cells(9)
    stage.placement = lambda: planned(lab1=all_[:8], lab2=all_[8:])
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 9}
    assert Counter({host: len(found) for host, found in ran(stage).items()}) == {
        "lab1": 5,
        "lab2": 4,
    }
    assert ran(stage)["lab2"][0] == all_[8].id
    assert end.seconds < 55


def test_a_host_leaves_alone_what_the_one_of_the_plan_ends_before_it_has_loaded(
    stage: Stage,
) -> None:
    stage.renew_every = 20.0  # cells last longer than a lease
    of_two(stage)
    stage.engine.script = takes(stage, {"lab1": 10, "lab2": 10}, load=60)
    mine, theirs = cells(4, model="one"), [sample_cell(9, model="other")]
    stage.placement = lambda: planned(lab1=mine, lab2=theirs)
    end = stage.run([*mine, *theirs], NOWHERE)
    assert end.progress.states == {"success": 5}
    assert {host: len(found) for host, found in ran(stage).items()} == {"lab1": 4, "lab2": 1}


def test_a_host_takes_what_waits_behind_a_long_cell_of_another(stage: Stage) -> None:
    stage.renew_every = 20.0  # a cell lasts longer than a lease
    of_two(stage)
    mine, theirs = cells(3, model="one"), [sample_cell(9, model="other")]
    stage.engine.script = lasting({"benchmark-1": 5000.0, "benchmark-9": 30.0}, load=60.0)
    stage.placement = lambda: planned(lab1=mine, lab2=theirs)
    end = stage.run([*mine, *theirs], NOWHERE)
    assert end.progress.states == {"success": 4}
    assert {host: len(found) for host, found in ran(stage).items()} == {"lab1": 2, "lab2": 2}


def test_a_host_that_is_much_slower_does_not_take_the_last_cells_from_a_fast_one(
    stage: Stage,
) -> None:
    stage.renew_every = 20.0  # cells last longer than a lease
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 1, gpus=1, model="fast"))
    stage.inbox.post(host_ready("lab2", 1, gpus=1, model="slow"))
    stage.engine.script = takes(stage, {"lab1": 10, "lab2": 200})
    all_ = [sample_cell(subset=f"s{number}") for number in range(30)]
    stage.placement = lambda: planned(lab1=all_[:29], lab2=all_[29:])
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 30}
    assert len(ran(stage)["lab2"]) == 1
    assert end.seconds < 300


@pytest.mark.parametrize("hopeless", [True, False])
def test_a_host_of_the_plan_that_is_lost_stops_nothing(stage: Stage, hopeless: bool) -> None:
    of_two(stage)

    def loses_its_host(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if host_of(stage, slot) == "lab2":
            return good(slot, request)
        lost = HostLost(host="lab1", reason="it is off", hopeless=hopeless)
        stage.inbox.post(lost, after=5.5)
        return [(5, SlotLost(slot=slot, reason="it is off", host_lost=True))]

    stage.engine.script = loses_its_host
    all_ = cells(5)
    stage.placement = lambda: planned(lab1=all_[:4], lab2=all_[4:])
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 5}
    assert {host: len(found) for host, found in ran(stage).items()} == {"lab1": 1, "lab2": 5}


def test_cells_for_a_host_wait_until_it_answers(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab2", 2))
    stage.inbox.post(host_ready("lab1", 2), after=7)
    all_ = cells(2)
    stage.placement = lambda: planned(lab1=all_)
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 2}
    assert set(ran(stage)) == {"lab1"}
    assert end.seconds == pytest.approx(17, abs=1)


def test_a_host_that_never_comes_holds_up_nobody(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab2", 2))
    stage.inbox.post(HostLost(host="lab1", reason="it is off"), after=5)
    all_ = cells(2)
    stage.placement = lambda: planned(lab1=all_)
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 2}
    assert set(ran(stage)) == {"lab2"}


def test_what_the_host_of_the_plan_cannot_take_is_anybodys(stage: Stage) -> None:
    stage.engine.far = ("lab1", "lab2")
    stage.inbox.post(host_ready("lab1", 1))
    stage.inbox.post(host_ready("lab2", 2, gpus=2))
    wide = [sample_cell(n, gpus=2) for n in range(2)]
    stage.placement = lambda: planned(lab1=wide)
    end = stage.run([*wide, sample_cell(9)], NOWHERE)
    assert end.progress.states == {"success": 3}
    assert {cell.id for cell in wide} <= set(ran(stage)["lab2"])


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_host_of_the_plan_whose_devices_are_drained_holds_up_nobody(
    stage: Stage, gpus: int
) -> None:
    of_two(stage, slots=2, gpus=2)
    drain = SlotsCommand(
        action="drain", devices=(device_name("lab1/gpu:0"), device_name("lab1/gpu:1"))
    )

    def drained(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(stage.engine.requests) == 1:
            stage.ledger.record(drain.event("us" * 16))
        return good(slot, request)

    stage.engine.script = drained
    mine = [sample_cell(n, gpus=gpus) for n in range(6)]
    theirs = [sample_cell(n, gpus=1) for n in range(10, 12)]
    stage.placement = lambda: planned(lab1=mine, lab2=theirs)
    end = stage.run([*theirs, *mine], NOWHERE)
    assert end.progress.states == {"success": 8}
    assert len(ran(stage).get("lab1", ())) <= 2
    assert end.seconds < 100


def test_a_host_of_the_plan_on_which_no_slot_starts_holds_up_nobody(stage: Stage) -> None:
    stage.engine.far, stage.engine.dead_devices = ("lab1", "lab2"), {1}
    broken = Device(kind="gpu", index=1, memory=8 * 10**9, host="lab1")
    stage.inbox.post(HostReady(host="lab1", devices=(broken,), slots=1, threads=1))
    stage.inbox.post(host_ready("lab2", 1))
    all_ = cells(3)
    stage.placement = lambda: planned(lab1=all_)
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 3}
    assert set(ran(stage)) == {"lab2"}


def test_a_wide_cell_gets_the_devices_of_its_host_and_others_keep_theirs(stage: Stage) -> None:
    of_two(stage, slots=2, gpus=2)
    wide = [sample_cell(n, gpus=2) for n in range(20, 22)]
    narrow = [sample_cell(n, gpus=1) for n in range(6)]
    stage.placement = lambda: planned(lab1=[*wide, *narrow[:2]], lab2=narrow[2:])
    end = stage.run([*narrow, *wide], NOWHERE)
    assert end.progress.states == {"success": 8}
    assert {cell.id for cell in wide} <= set(ran(stage)["lab1"])


def test_a_plan_outside_this_run_has_its_own_cells_go_first(stage: Stage) -> None:
    all_ = cells(6)
    stage.placement = lambda: planned(elsewhere=all_[:4], **{"": all_[4:]})
    end = stage.run(all_)
    assert end.progress.states == {"success": 6}
    assert set(ran(stage)[""][:2]) == {cell.id for cell in all_[4:]}


def test_a_newer_plan_is_followed_while_the_run_goes_on(stage: Stage) -> None:
    of_two(stage)
    all_ = cells(8)
    output = [planned(lab1=all_[:4], lab2=all_[4:])]
    stage.placement = lambda: output[-1]

    def plans_again(slot: SlotId, request: AttemptRequest) -> Sequence[tuple[float, SlotEvent]]:
        if len(output) == 1:
            output.append(planned(lab2=all_[:4], lab1=all_[4:]))
            stage.ledger.record(Plan(number=2, hosts={}).event())
        return good(slot, request)

    stage.engine.script = plans_again
    end = stage.run(all_, NOWHERE)
    assert end.progress.states == {"success": 8}
    found = ran(stage)
    assert set(found["lab1"][1:]) == {cell.id for cell in all_[4:] if cell.id != found["lab2"][0]}
    assert set(found["lab2"][1:]) == {cell.id for cell in all_[:4] if cell.id != found["lab1"][0]}


@pytest.mark.parametrize(
    ("free_in", "ends_in"),
    [([0], 80), ([0, 0], 40), ([5, 15], 50), ([5, 85], 85), ([5, 100], 85), ([20] * 8, 30)],
)
def test_a_host_ends_what_waits_with_all_its_slots(free_in: list[float], ends_in: float) -> None:
    assert shared_evenly(80, free_in) == ends_in
