"""The "add one" recipe of the family's README, followed to the letter.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import benchfleet.benchmarks
from benchfleet import registry
from benchfleet.errors import UnknownName
from recipe import Recipe

from .conftest import HeldSession

RECIPE = Recipe(benchfleet.benchmarks)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with RECIPE.installed(tmp_path):
        yield


def test_without_its_package_the_name_is_unknown() -> None:
    with pytest.raises(UnknownName, match="no benchmark 'capitals'"):
        registry.load("benchmarks", "capitals")


@pytest.mark.usefixtures("installed")
def test_a_benchmark_made_by_the_recipe_is_found_checked_and_run(
    session: Callable[..., HeldSession],
) -> None:
    (item,) = yaml.safe_load(RECIPE.block("yaml"))["benchmarks"]
    ((name, output),) = item.items()
    assert name in registry.names("benchmarks")

    subsets = output.pop("subsets")
    benchmark = registry.load("benchmarks", name)(output)
    assert benchmark.params() == {"polite": True}
    assert [benchmark.check_subset(subset) for subset in subsets] == [None]
    assert benchmark.check_subset("europa") == "no subset 'europa'; did you mean 'europe'?"
    assert benchmark.data_digest("europe") == ""

    given = session(lambda p: "Oslo, I say" if "Norway" in p.question else "?", subset="europe")
    score = benchmark.run(given)
    assert score.overall == 0.5
    assert [p.question for p in given.adapter.asked] == [
        "Please name the capital of France:",
        "Please name the capital of Norway:",
    ]


@pytest.mark.usefixtures("installed")
def test_a_benchmark_made_by_the_recipe_runs_whole_and_refuses_what_it_does_not_take(
    session: Callable[..., HeldSession],
) -> None:
    made = registry.load("benchmarks", "capitals")
    assert made({}).run(session(lambda p: "Nairobi")).per_sample == [1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"no parameter 'polit'; did you mean 'polite'\?"):
        made({"polit": True})
