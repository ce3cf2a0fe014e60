"""The "add one" recipe of the family's README, followed to the letter.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

import benchfleet.models.attention
from benchfleet import registry
from benchfleet.domain.cell import AttentionStep
from benchfleet.models.attention.compose import build_steps, check_steps, kept_keys
from recipe import Recipe

RECIPE = Recipe(benchfleet.models.attention)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with RECIPE.installed(tmp_path):
        yield


def written() -> list[AttentionStep]:
    """The steps of the recipe's campaign file, as a campaign reads them."""
    (config,) = yaml.safe_load(RECIPE.block("yaml"))["configs"].values()
    steps = []
    for step in config["attention"]:
        ((name, value),) = step.items()
        steps.append(
            AttentionStep(name=name, params=registry.load("attention", name).parse(value).params())
        )
    return steps


def test_the_table_names_every_built_in_config():
    rows = re.findall(r"^\| (`.+?) \|", RECIPE.text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(registry._BUILT_IN["attention"])


@pytest.mark.usefixtures("installed")
def test_a_config_made_by_the_recipe_is_found_checked_and_composed(scene):
    steps = written()
    assert steps[-1] == AttentionStep(name="strided", params={"stride": 8, "offset": 0})
    assert check_steps(steps) is None
    given = scene("....kkkkkkkkkkkkkkkkkkkkkkqq", queries=2)
    selected = kept_keys(build_steps(steps), given.view).selected[0, 0]
    columns = [torch.nonzero(query).flatten().tolist() for query in selected]
    assert columns == [[4, 5, 6, 7, 10, 18, 26], [4, 5, 6, 7, 11, 19, 27]]


@pytest.mark.usefixtures("installed")
def test_a_config_made_by_the_recipe_refuses_what_it_does_not_take():
    parse = registry.load("attention", "strided").parse
    with pytest.raises(ValueError, match="stride must be a whole number from 1 up, not 0"):
        parse(0)
    with pytest.raises(ValueError, match=r"no parameter 'strid'; did you mean 'stride'\?"):
        parse({"strid": 4})
    with pytest.raises(ValueError, match="stride is missing; give it a value"):
        parse(None)
