"""The "add one" recipe of the family's README, followed to the letter.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import benchfleet.policies
from benchfleet import registry
from benchfleet.errors import UnknownName
from benchfleet.policies.base import Preference, Work
from benchfleet.testing.sample_cells import sample_cell
from recipe import Recipe

RECIPE = Recipe(benchfleet.policies)
NAME = yaml.safe_load(RECIPE.block("yaml"))["placement"]


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with RECIPE.installed(tmp_path):
        yield


def test_without_its_package_the_name_is_unknown() -> None:
    with pytest.raises(UnknownName, match=f"'{NAME}'"):
        registry.load("policies", NAME)


@pytest.mark.usefixtures("installed")
def test_a_policy_made_by_the_recipe_is_found_and_asked() -> None:
    assert NAME in registry.names("policies")
    policy = registry.load("policies", NAME)()
    assert [policy.rank(sample_cell(repeat=number), None) for number in (0, 3)] == [0.0, 3.0]
    assert policy.preference("", [Work(load_key="m", cells=3, seconds=30.0)]) == Preference()
