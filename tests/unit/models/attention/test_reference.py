"""Sinks, windows, the oracle and their sequences against slow loops, in padding too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch

from attention_reference import built, expected_weights
from benchfleet.models.attention.compose import kept_keys

from .conftest import Scene

SCENES = {
    "one row, prefill": (("kkkkkkkkkkkk",), 12),
    "one row, decoding": (("kkkkkkkkkkkkkkk",), 1),
    "left padding": (("kkkkkkkkkkkkqqq", "...kkkkkkkkkqqq", ".......kkkkkqqq"), 3),
    "holes before the question": (("kkkkkkkk.qqqq", "..kkkkkk...qq", "....kkkk.qqqq"), 5),
    "decoding after holes": (("kkkk...qqaaaaa", "...k.qqqqaaaaa"), 1),
    "padding alone in a row": (("......", "kkkqqq"), 3),
}
STEPS = {
    "dense": [("dense", {})],
    "sink": [("sink", {"sink_size": 2})],
    "sink, fraction": [("sink", {"sink_size": 0.3})],
    "local": [("local", {"window_size": 3})],
    "local, fraction": [("local", {"window_size": 0.1})],
    "local, nothing": [("local", {"window_size": 0})],
    "local, everything": [("local", {"window_size": 10**30})],
    "sink_local": [("sink_local", {"sink_size": 1, "window_size": 2})],
    "streaming, fractions": [("streaming", {"sink_size": 0.2, "window_size": 0.25})],
    "oracle": [("oracle_top_k", {"heavy_size": 4})],
    "oracle, fraction": [("oracle_top_k", {"heavy_size": 0.4})],
    "oracle, everything": [("oracle_top_k", {"heavy_size": 1.0})],
    "composed": [
        ("sink", {"sink_size": 1}),
        ("local", {"window_size": 2}),
        ("oracle_top_k", {"heavy_size": 2}),
    ],
    "oracle first": [
        ("oracle_top_k", {"heavy_size": 2}),
        ("local", {"window_size": 0.2}),
        ("oracle_top_k", {"heavy_size": 1}),
    ],
}


@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("drawn", SCENES.values(), ids=SCENES.keys())
def test_the_kept_keys_are_those_of_the_slow_reference(
    scene: Callable[..., Scene],
    drawn: tuple[tuple[str, ...], int],
    steps: Sequence[tuple[str, dict[str, float]]],
    heads: int,
) -> None:
    rows, queries = drawn
    given = scene(*rows, queries=queries, heads=heads)
    whole = built(*steps)
    selected = kept_keys(whole, given.view).selected
    selected = selected.expand(len(rows), heads, queries, len(rows[0]))
    names = [name for name, _ in steps]
    for where in product(range(len(rows)), range(heads), range(queries)):
        found = torch.nonzero(selected[where]).flatten().tolist()
        assert set(found) == set(expected_weights(names, whole, given, where)), where


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_padding_shifts_nothing(
    scene: Callable[..., Scene], steps: Sequence[tuple[str, dict[str, float]]]
) -> None:
    """The same tokens with and without padding between them: the same ones are kept."""
    tight = scene("kkkkkkqqq", queries=3)
    loose = scene("...kkk..kkk...qqq", queries=3)
    columns = torch.nonzero(loose.tokens[0]).flatten()
    for name in ("key", "value"):
        getattr(loose, name)[:, :, columns] = getattr(tight, name)
    loose.query.copy_(tight.query)
    whole = built(*steps)
    wide, narrow = (kept_keys(whole, one.view).selected for one in (loose, tight))
    assert torch.equal(wide[..., columns], narrow)
    assert int(wide.sum()) == int(narrow.sum())


def test_of_equal_scores_the_later_key_is_kept(scene: Callable[..., Scene]) -> None:
    given = scene("..kkkkkkkk", "kkkk.kkkkk", queries=1)
    given.query.zero_()
    for row in kept_keys(built(("oracle_top_k", {"heavy_size": 3})), given.view).selected:
        for head in row:
            assert torch.nonzero(head[0]).flatten().tolist() == [7, 8, 9]
