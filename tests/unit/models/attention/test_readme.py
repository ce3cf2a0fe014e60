"""The "add one" recipe of the family's README, followed to the letter.

It touches the disk: the package that the recipe makes is laid out in a temporary folder, as an
installer would.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

import benchfleet.models.attention
from benchfleet import registry
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import build_steps, check_steps, kept_keys
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.state import Shape
from benchfleet.models.attention.tally import Tally
from recipe import Recipe

from .conftest import Scene

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


def test_the_table_names_every_built_in_config() -> None:
    rows = re.findall(r"^\| (`.+?) \|", RECIPE.text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(registry._BUILT_IN["attention"])


@pytest.mark.usefixtures("installed")
def test_a_config_made_by_the_recipe_is_found_checked_and_composed(
    scene: Callable[..., Scene],
) -> None:
    steps = written()
    assert steps[-1] == AttentionStep(name="strided", params={"stride": 8, "offset": 0})
    assert check_steps(steps) is None
    given = scene("....kkkkkkkkkkkkkkkkkkkkkkqq", queries=2)
    selected = kept_keys(build_steps(steps), given.view).selected[0, 0]
    columns = [torch.nonzero(query).flatten().tolist() for query in selected]
    assert columns == [[4, 5, 6, 7, 10, 18, 26], [4, 5, 6, 7, 11, 19, 27]]


@pytest.mark.usefixtures("installed")
def test_a_config_made_by_the_recipe_refuses_what_it_does_not_take() -> None:
    parse = registry.load("attention", "strided").parse
    with pytest.raises(ValueError, match="stride must be a whole number from 1 up, not 0"):
        parse(0)
    with pytest.raises(ValueError, match=r"no parameter 'strid'; did you mean 'stride'\?"):
        parse({"strid": 4})
    with pytest.raises(ValueError, match="stride is missing; give it a value"):
        parse(None)


@pytest.fixture
def beyond_a_mask(tmp_path: Path) -> AttentionConfig:
    """The config of the README's second example, which keeps eight keys."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", RECIPE.text, re.DOTALL | re.MULTILINE)
    file = tmp_path / "by_length.py"
    file.write_text(code, "utf-8")
    names = runpy.run_path(str(file), run_name="by_length")
    config: AttentionConfig = names["ByLength"].parse(8)
    return config


def test_the_example_beyond_a_mask_picks_by_layer_value_and_state(
    scene: Callable[..., Scene], beyond_a_mask: AttentionConfig
) -> None:
    config = beyond_a_mask
    given = scene("....kkkkkkkkkkkkkkkkkkkkkkqq", queries=2)
    heads, key_heads = given.query.shape[1], given.key.shape[1]
    device = given.key.device
    shape = Shape(layer=0, heads=heads, key_heads=key_heads, dim=8, device=device)
    whole, grown = config.new_state(shape), config.new_state(shape)
    assert whole is not None
    assert grown is not None
    whole.update(given.key, given.tokens)
    for end in (20, 27):  # as keys come, and once back again
        grown.update(given.key[:, :, :end], given.tokens[:, :end])
    grown.crop(10)
    grown.update(given.key, given.tokens)
    for layer, many in ((0, 8), (1, 4)):
        kept = []
        for state in (whole, grown):
            view = replace(given.view, layer=layer, layers=2)
            kept.append(kept_keys([config], view, {0: state}))
        weight = kept[0].weight
        assert weight is not None
        assert kept[1].weight is not None
        assert torch.equal(weight, kept[1].weight)
        for head in range(heads):
            group = head // (heads // key_heads)
            for query in range(2):
                columns = range(4, 27 + query)
                ratio = {
                    c: float(given.value[0, group, c].norm() / given.key[0, group, c].norm())
                    for c in columns
                }
                best = sorted(columns, key=ratio.__getitem__)[-many:]
                row = weight[0, head, query]
                assert torch.nonzero(row).flatten().tolist() == sorted(best)
                assert row[best].tolist() == pytest.approx([len(columns) / many] * many)


def test_the_example_beyond_a_mask_keeps_the_same_keys_when_it_runs_fast(
    scene: Callable[..., Scene], beyond_a_mask: AttentionConfig
) -> None:
    config = beyond_a_mask
    given = scene("k" * 24, queries=1)
    outputs = []
    for fast in (False, True):
        attention = SparseAttention()
        attention.steps, attention.fast = (config,), fast
        cache = SimpleNamespace(layers=[SimpleNamespace(states={})])
        module = SimpleNamespace(**vars(given.module), layer_idx=0)
        tally = Tally(1, "cpu")
        with attention.counting(tally, given.counted, cache=cache):
            output, _ = attention(module, given.query, given.key, given.value, None)
        outputs.append(output)
    assert torch.allclose(outputs[0], outputs[1], atol=1e-5)
