"""Random stories of runners that rent: whatever is killed, frozen or lost, nothing is left running.

Each seed is one story. The same stories must catch runners with one rule broken on purpose.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from simulation.rental_world import WINDOW, World

from . import mutants

STORIES = int(os.environ.get("BENCHFLEET_RENTAL_STORIES", "30"))
FAULTS = {
    "create": ["lost", "lost", "away", "refused", "broken"],
    "list": ["away"],
    "destroy": ["away", "lost", "ignored"],
    "ledger": ["away", "lost"],
    "ledger_read": ["away"],
}


def story(seed: int) -> Iterator[tuple[Any, ...]]:
    """Some tens of actions. Some stories have no lag and few faults, some have many."""
    chance = random.Random(seed)
    weights = {
        "step": 40,
        "advance": chance.choice([2, 8]),
        "start": 3,
        "kill": chance.choice([0, 2]),
        "fault": chance.choice([0, 4, 8]),
        "lag": chance.choice([0, 2]),
        "work": 2,
    }
    for action in chance.choices(list(weights), list(weights.values()), k=70):
        match action:
            case "step":
                yield action, chance.randrange(3), chance.randint(1, 14)
            case "advance":
                yield action, chance.choice([5.0, 40.0, 100.0, 250.0])
            case "start":
                yield action, chance.choice(["me", "me", "another account"])
            case "kill":
                yield action, chance.randrange(3)
            case "fault":
                endpoint = chance.choice(list(FAULTS))
                yield action, endpoint, chance.choice(FAULTS[endpoint])
            case "lag":
                yield action, chance.choice([0.0, 60.0, WINDOW - 1])
            case "work":
                yield action, chance.randint(1, 3)


def play(world: World, actions: Iterator[tuple[Any, ...]]) -> None:
    """Play a story, and check after each action what must always hold."""
    world.start()
    for action, *values in actions:
        live = [runner for runner in world.runners if not runner.ended]
        match action:
            case "start" if len(live) < 3:
                world.start(key=values[0])
            case "step" if live:
                for _ in range(values[1]):
                    live[values[0] % len(live)].step()
            case "kill" if live:
                live[values[0] % len(live)].kill()
            case "advance":
                world.cloud.advance(values[0])
            case "lag":
                world.cloud.lag_s = values[0]
            case "work":
                world.work += values[0]
            case "fault":
                world.cloud.faults.setdefault(values[0], []).append(values[1])
        world.check()


def tell(seed: int, **options: Any) -> None:
    """One story from its first runner to the proof that nothing is left."""
    world = World(count=1 + seed % 2, **options)
    with world.until_the_end():
        play(world, story(seed))
        world.finish()


@pytest.mark.slow
def test_nothing_is_left_running() -> None:
    for seed in range(STORIES):
        tell(seed)


def lost_answer_and_lag(**options: Any) -> None:
    """The answer to a create is lost, and lists lag. The runner must not end before it knows."""
    world = World(**options)
    with world.until_the_end():
        world.cloud.faults["create"] = ["lost"]
        world.cloud.lag_s = 100.0
        runner = world.start()
        runner.until("create")
        runner.step()
        world.work = 0
        for _ in range(2000):
            runner.step()
            if runner.ended:
                break
            if runner.turns > 20:  # before that no time passes
                world.cloud.advance(1.0)
        assert runner.ended
        assert not world.cloud.living, "an instance was left running"
        world.finish()


def frozen_before_its_request(**options: Any) -> None:
    """A runner is frozen between the intent and the request, sends it late, and dies."""
    world = World(**options)
    with world.until_the_end():
        frozen = world.start()
        frozen.until("create")
        other = world.start()
        world.work = 0
        while not other.ended:
            other.step()
            world.cloud.advance(1.0)
        assert [rental.state for rental in world.history().rentals.values()] == ["void"]
        frozen.step()
        frozen.kill()
        assert len(world.cloud.living) == 1
        world.finish()


def rented_between_list_and_read(**options: Any) -> None:
    """A runner rents while another one is between what it knows of the cloud and of the ledger."""
    world = World(**options)
    with world.until_the_end():
        first = world.start()
        while not world.cloud.living:
            first.step()
        other = world.start()
        other.until("list")
        world.work = 3
        third = world.start()
        while len(world.cloud.living) < 2:
            third.step()
        for _ in range(20):
            other.step()
            world.check()
        world.finish()


def key_of_another_account(**options: Any) -> None:
    """A runner whose key was replaced by another account's sees empty lists."""
    world = World(**options)
    with world.until_the_end():
        first = world.start()
        while "created" not in {rental.state for rental in world.history().open}:
            first.step()
        other = world.start(key="another account")
        for _ in range(1500):
            other.step()
            world.cloud.advance(1.0)
            world.check()
        assert world.cloud.living
        world.finish()


DIRECTED = [
    lost_answer_and_lag,
    frozen_before_its_request,
    rented_between_list_and_read,
    key_of_another_account,
]


@pytest.mark.slow
@pytest.mark.parametrize("directed", DIRECTED)
def test_what_random_stories_hardly_reach(directed: Callable[..., None]) -> None:
    directed()


def random_stories(**options: Any) -> None:
    for seed in range(200):
        tell(seed, **options)


BROKEN: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "no intent": (random_stories, {"renting": mutants.NoIntent}),
    "no order in the ledger": (random_stories, {"ordered": False}),
    "create again": (random_stories, {"renting": mutants.CreateAgain}),
    "void at once": (lost_answer_and_lag, {"reconciler": mutants.VoidAtOnce}),
    "forgets labels": (frozen_before_its_request, {"reconciler": mutants.ForgetsLabels}),
    "believes destroy": (random_stories, {"reconciler": mutants.BelievesDestroy}),
    "reads the stream first": (rented_between_list_and_read, {"reconciler": mutants.ReadsFirst}),
    "any account": (key_of_another_account, {"reconciler": mutants.AnyAccount}),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN)
def test_the_stories_catch_a_broken_rule(rule: str) -> None:
    stories, options = BROKEN[rule]
    with pytest.raises(AssertionError):
        stories(**options)
