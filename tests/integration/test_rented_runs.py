"""Runs on rented machines in virtual time: budgets, owners that died, ends without a proof."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchfleet.cli.text.notices import sentence
from benchfleet.domain.rent import RentEntry
from benchfleet.planner.rent.replan import Replanner
from benchfleet.testing.sample_cells import sample_cell
from simulation.rented_run import RentedRun

ENTRY = RentEntry(name="r4090", gpu="RTX 4090", providers=("vast",))
CELLS = [sample_cell(number, gpus=1) for number in range(20)]  # of 400 s each


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RentedRun:
    world = RentedRun(tmp_path, monkeypatch)
    for number in range(4):
        world.offer("vast", number + 1, "RTX 4090", 24, 360_000)
    return world


def test_a_budget_that_is_crossed_ends_the_run_in_good_order(world: RentedRun) -> None:
    """It is enough for nine cells with 20 minutes to end and return the machine."""
    end, request = world.run(CELLS, [ENTRY], budget=0.5)
    assert end.progress.states == {"success": 9, "pending": 11}
    assert "the budget of 0.5 USD is spent" in end.broken
    *done, stopped = world.manifest()
    assert {row["status"] for row in done} == {"success"}
    assert stopped["status"] == "released"
    assert "the budget of 0.5 USD is spent" in stopped["notes"]
    assert {record.tries for record in world.ledger.cells(states=["pending"])} == {0}
    assert not world.living()
    assert not request.remaining
    bill = world.clouds["vast"].bill()
    assert 360_000 < bill <= 500_000
    assert sum(round(row["total_cost"] * 1e6) for row in [*done, stopped]) == bill


def test_an_instance_that_does_not_end_is_named_after_ten_minutes(world: RentedRun) -> None:
    world.clouds["vast"].faults["destroy"] = ["ignored"] * 1000
    end, request = world.run(CELLS[:1], [ENTRY])
    (instance,) = world.living()
    (named,) = request.remaining
    assert named.startswith(f"vast {instance.id} (https://cloud.vast.ai/instances/) at 0.360 USD/h")
    ended = world.turns.clock() - end.progress.began - end.seconds
    assert 600 <= ended < 620
    (rental,) = world.history().open
    assert rental.state == "returning"
    world.clouds["vast"].faults.clear()
    again, request = world.run(CELLS[:1], [ENTRY], owner="next", is_owner_dead=lambda _: True)
    assert again.ran == 0
    assert not request.remaining
    assert not world.living()


def test_another_machine_returns_what_a_dead_run_had_rented(world: RentedRun) -> None:
    """It cannot see the other run's process: 15 minutes without a sign of life prove its death."""
    world.run_until(
        lambda: any(one.slots for one in world.machines), CELLS[:2], [ENTRY], owner="first"
    )
    (orphan,) = world.living()
    killed = world.turns.now()
    end, request = world.run(CELLS[:2], [ENTRY], owner="second", is_owner_dead=lambda _: None)
    assert end.progress.states == {"success": 2}
    assert orphan.ended is not None
    assert 900 <= orphan.ended - killed < 1000
    first, second = world.history().rentals.values()
    assert (first.owner, first.why) == ("first", "its runner died")
    assert second.owner == "second"
    assert not request.remaining
    assert not world.living()
    assert first.cost + second.cost == world.clouds["vast"].bill()


def test_a_machine_that_its_timer_ended_after_its_run_did_not_fail(world: RentedRun) -> None:
    world.run_until(
        lambda: any(one.slots for one in world.machines), CELLS[:1], [ENTRY], owner="first"
    )
    (orphan,) = world.living()
    world.clouds["vast"].end(orphan.id)
    end, _ = world.run(CELLS[:1], [ENTRY], owner="second", is_owner_dead=lambda _: True)
    assert end.progress.states == {"success": 1}
    first, second = world.history().rentals.values()
    assert (first.state, first.why, first.failure) == ("ended", "its runner died", None)
    assert (second.machine, second.offer) == (first.machine, first.offer)  # nor is it avoided


def test_another_machine_leaves_alone_what_a_living_run_uses(world: RentedRun) -> None:
    """Signs of life come each five minutes."""
    first = world.begin(CELLS, [ENTRY], owner="first")
    while not any(one.slots for one in world.machines):
        world.wait(5.0)
    end, _ = world.run(CELLS, [ENTRY], owner="second", is_owner_dead=lambda _: None)
    assert end.progress.states["success"] == len(CELLS)
    first.join()
    assert len(world.clouds["vast"].instances) == 1
    assert not world.living()


def test_more_machines_are_rented_once_cells_take_longer_than_assumed(world: RentedRun) -> None:
    """Ten minutes each are assumed, so one machine would do: they take 52."""
    cells = [sample_cell(0, gpus=1, repeat=number, repeats=True) for number in range(6)]
    world.each_s = 300.0
    declared = replace(ENTRY, count=4)
    replan = Replanner(cells=cells, entries=[declared], end=world.turns.now() + 7200.0)
    end, _ = world.run(cells, [replace(declared, planned=1)], replan=replan)
    assert end.progress.states == {"success": 6}
    assert end.seconds < 3 * 3600.0  # of 5.3 hours with one machine
    assert 2 <= len(world.clouds["vast"].instances) <= 4
    assert any("machines, as planned again" in line for line in world.messages)
    assert not world.living()


def test_more_machines_are_rented_once_the_budget_has_room(world: RentedRun) -> None:
    """Ten minutes each are assumed, so one machine was planned for this money: they take five."""
    cells = [sample_cell(0, gpus=1, repeat=number, repeats=True) for number in range(40)]
    declared = replace(ENTRY, count=4)
    replan = Replanner(cells=cells, entries=[declared])
    end, _ = world.run(cells, [replace(declared, planned=1)], budget=6.0, replan=replan)
    assert end.progress.states == {"success": 40}
    assert end.seconds < 3 * 3600.0  # of 4.5 hours with one machine
    assert 2 <= len(world.clouds["vast"].instances) <= 4
    assert any("machines, as planned again" in line for line in world.messages)
    assert not world.living()
    assert world.clouds["vast"].bill() <= 6_000_000


def test_no_cell_begins_that_should_cost_more_than_is_left(world: RentedRun) -> None:
    """Nine cells fit, and the tenth is not begun: what it takes is known by then."""
    cells = [sample_cell(0, gpus=1, repeat=number, repeats=True) for number in range(20)]
    end, request = world.run(cells, [ENTRY], budget=0.5)
    assert end.progress.states == {"success": 9, "pending": 11}
    assert "each waiting cell should cost more; raise 'budget'" in end.broken
    assert {row["status"] for row in world.manifest()} == {"success"}
    assert not world.living()
    assert not request.remaining
    assert world.clouds["vast"].bill() <= 500_000


def test_five_failed_rentals_end_their_cells_by_the_first_reason(world: RentedRun) -> None:
    """Each on another machine. Nothing is charged to the cells, and the run ends."""
    for number in (5, 6):
        world.offer("vast", number, "RTX 4090", 24, 360_000)
    troubles = ["wrong_gpu", "key_refused", "no_login", "busy_gpu", "no_install", ""]
    world.machine_troubles[("vast", "RTX 4090")] = troubles
    end, request = world.run(CELLS[:2], [ENTRY])
    assert end.progress.states == {"failed": 2}
    assert len(world.clouds["vast"].instances) == 5
    for record in world.ledger.cells():
        assert record.outcome is not None
        failure = record.outcome.failure
        assert failure is not None
        assert (failure.stage, failure.kind, record.tries) == ("provision", "wrong_hardware", 0)
        assert "5 rentals of r4090 failed in a row; the first: " in failure.message
    assert not world.living()
    assert not request.remaining


def test_a_run_says_why_it_gave_a_machine_up_and_what_it_waits_for(world: RentedRun) -> None:
    troubles = ["wrong_gpu", "never_runs", "key_refused", "stopped"]
    world.machine_troubles[("vast", "RTX 4090")] = troubles
    end, _ = world.run(CELLS[:1], [ENTRY])
    assert end.progress.states == {"failed": 1}
    reasons = {one.offer: one.host for one in world.history().rentals.values()}
    lines = [sentence(one) for one in world.notices]
    given_up = [line for line in lines if line.startswith("! host r4090-")]
    assert len(given_up) == len(set(given_up)) == 4
    for offer, why in (
        ("1", "hardware: it has NVIDIA GeForce GTX 1080, not 1 × RTX 4090"),
        ("2", "it did not run within 10 min; the provider calls it starting"),
        ("3", "ssh_wait: key refused: "),
        ("4", "the provider calls it stopped"),
    ):
        begin = f"! host {reasons[offer]}: offer {offer} is returned: {why}"
        assert any(line.startswith(begin) for line in given_up), (begin, given_up)
    assert not any("tried again" in line for line in given_up)
    waited = "… waiting for host r4090: "
    assert f"{waited}a rented machine is being prepared: waiting for it to start" in lines
    assert f"{waited}a rented machine is being prepared: waiting for SSH" in lines
    aside = r"4 offers are set aside until .* \d\d:\d\d, since machines of theirs failed"
    assert any(re.fullmatch(waited + aside, line) for line in lines)
