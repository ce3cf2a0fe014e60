"""Each config against a slow reference: plain loops over rows, heads, queries and keys."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.compose import build_steps, kept_keys

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


def number(size, of: int) -> int:
    if isinstance(size, int):
        return min(size, of)
    return math.ceil(Fraction(str(size)) * of)


def kept_by_reference(steps, scene) -> list[list[list[set[int]]]]:
    """The columns kept for each row, head and query."""
    batch, heads, queries, _ = scene.query.shape
    keys = scene.key.shape[2]
    answer: list[list[list[set[int]]]] = []
    for row in range(batch):
        answer.append([])
        for head in range(heads):
            answer[row].append([])
            key_head = head // (heads // scene.key.shape[1])
            for query in range(queries):
                own = keys - queries + query
                seen = [column for column in range(own + 1) if scene.tokens[row, column]]
                scores = {}
                for column in seen:
                    products = scene.query[row, head, query] * scene.key[row, key_head, column]
                    scores[column] = sum(float(product) for product in products)
                selected: set[int] = set()
                for name, params in steps:
                    first = number(params.get("sink_size", 0), len(seen))
                    last = number(params.get("window_size", 0), len(seen))
                    best = number(params.get("heavy_size", 0), len(seen))
                    left = sorted(set(seen) - selected, key=lambda column: -scores[column])
                    selected |= set(seen[:first]) | set(seen[len(seen) - last :]) | set(left[:best])
                    if name == "dense":
                        selected |= set(seen)
                if seen and not selected:
                    selected = {seen[-1]}
                answer[row][head].append(selected)
    return answer


@pytest.mark.parametrize("heads", [2, 4, 6])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("drawn", SCENES.values(), ids=SCENES.keys())
def test_the_kept_keys_are_those_of_the_slow_reference(scene, drawn, steps, heads):
    rows, queries = drawn
    given = scene(*rows, queries=queries, heads=heads)
    built = build_steps([AttentionStep(name=name, params=params) for name, params in steps])
    selected = kept_keys(built, given.view).selected
    selected = selected.expand(len(rows), heads, queries, len(rows[0]))
    found = [
        [[set(torch.nonzero(query).flatten().tolist()) for query in head] for head in row]
        for row in selected
    ]
    assert found == kept_by_reference(steps, given)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_padding_shifts_nothing(scene, steps):
    """The same tokens with and without padding between them: the same ones are kept."""
    tight = scene("kkkkkkqqq", queries=3)
    loose = scene("...kkk..kkk...qqq", queries=3)
    columns = torch.nonzero(loose.tokens[0]).flatten()
    for name in ("key", "value"):
        getattr(loose, name)[:, :, columns] = getattr(tight, name)
    loose.query.copy_(tight.query)
    built = build_steps([AttentionStep(name=name, params=params) for name, params in steps])
    assert torch.equal(
        kept_keys(built, loose.view).selected[..., columns], kept_keys(built, tight.view).selected
    )
    assert int(kept_keys(built, loose.view).selected.sum()) == int(
        kept_keys(built, tight.view).selected.sum()
    )


def test_of_equal_scores_the_later_key_is_kept(scene):
    given = scene("..kkkkkkkk", "kkkk.kkkkk", queries=1)
    given.query.zero_()
    (oracle,) = build_steps([AttentionStep(name="oracle_top_k", params={"heavy_size": 3})])
    for row in kept_keys([oracle], given.view).selected:
        for head in row:
            assert torch.nonzero(head[0]).flatten().tolist() == [7, 8, 9]
