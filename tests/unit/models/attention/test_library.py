"""Each config of the library against slow loops, alone and behind sinks and a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from attention_cases import CASES, ONE_OF_EACH
from attention_reference import (
    REFERENCES,
    built,
    expected_weights,
    found_weights,
    kept_of,
    states_of,
)
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import kept_keys
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.tally import Tally

from .conftest import Scene

SCENES: dict[str, tuple[tuple[str, ...], int]] = {
    "prefill": (("k" * 14,), 14),
    "decoding": (("k" * 21,), 1),
    "left padding": (("k" * 15 + "qqq", "..." + "k" * 12 + "qqq", "." * 12 + "kkkqqq"), 3),
    "holes": (("kkkkkkkkkkk.qqqq", "..kkkkkkkkk...qq", "...........qqqqq"), 5),
    "padding alone in a row": (("......", "kkkqqq"), 3),
}


def check(given: Scene, names: Sequence[str], steps: tuple[AttentionConfig, ...]) -> None:
    kept = kept_of(steps, given)
    batch, heads, queries, _ = given.query.shape
    for row in range(batch):
        for head in range(heads):
            for query in range(queries):
                if not given.counted[row, query]:
                    continue
                found = found_weights(kept, given, row, head, query)
                expected = expected_weights(names, steps, given, (row, head, query))
                assert found == pytest.approx(expected, rel=1e-3), (row, head, query)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize(
    ("name", "params"), [(name, params) for name, cases in CASES.items() for params in cases]
)
@pytest.mark.parametrize("drawn", SCENES.values(), ids=SCENES.keys())
def test_a_config_keeps_what_the_slow_reference_keeps(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    drawn: tuple[tuple[str, ...], int],
    name: str,
    params: Mapping[str, Any],
    heads: int,
) -> None:
    rows, queries = drawn
    given = scene(*rows, queries=queries, heads=heads)
    check(given, [name], steps_of((name, params), heads=heads))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_behind_sinks_and_a_window_it_adds_to_them(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    params: Mapping[str, float],
) -> None:
    rows, queries = SCENES["holes"]
    given = scene(*rows, queries=queries)
    steps = steps_of(("sink", {"sink_size": 2}), ("local", {"window_size": 3}), (name, params))
    check(given, ["sink", "local", name], steps)


@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_in_half_precision_it_keeps_what_the_reference_keeps(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    params: Mapping[str, float],
) -> None:
    given = scene(*SCENES["left padding"][0], queries=3)
    for tensor in (given.query, given.key, given.value):
        tensor.copy_(tensor.bfloat16().float())
    half = type(given)(
        query=given.query.bfloat16(),
        key=given.key.bfloat16(),
        value=given.value.bfloat16(),
        tokens=given.tokens,
    )
    steps = steps_of((name, params))
    assert torch.equal(kept_of(steps, half).selected, kept_of(steps, given).selected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_of_a_model_that_caps_scores_it_keeps_what_the_reference_keeps(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    params: Mapping[str, float],
) -> None:
    rows, queries = SCENES["left padding"]
    given = scene(*rows, queries=queries, scaling=2.0, softcap=1.5)
    check(given, [name], steps_of((name, params)))


@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_padding_shifts_nothing(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    params: Mapping[str, float],
) -> None:
    tight = scene("kkkkkkkkkqqq", queries=3)
    loose = scene("...kkk..kkkkkk...qqq", queries=3)
    columns = torch.nonzero(loose.tokens[0]).flatten()
    for tensor in ("key", "value"):
        getattr(loose, tensor)[:, :, columns] = getattr(tight, tensor)
    loose.query.copy_(tight.query)
    steps = steps_of((name, params))
    wide, narrow = kept_of(steps, loose), kept_of(steps, tight)
    assert torch.equal(wide.selected[..., columns], narrow.selected)
    assert int(wide.selected.sum()) == int(narrow.selected.sum())


STATES = ["quest", "double_sparsity", "hash_attention", "magic_pig", "pq_cache"]


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("pieces", [[3, 4, 1, 1, 5], [1] * 14, [13, 1]])
def test_a_state_that_grows_is_that_of_all_keys(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    pieces: Sequence[int],
) -> None:
    given = scene("k" * 14, "...kkkk.kkkkkk", queries=1)
    steps = steps_of((name, CASES[name][0]))
    whole = states_of(steps, given)[0]
    (grown,) = states_of(steps, given).values()
    grown.crop(0)
    for length in torch.tensor(pieces).cumsum(0).tolist():
        grown.update(given.key[:, :, :length], given.tokens[:, :length])
    expected = kept_keys(steps, given.view, {0: whole})
    assert torch.equal(kept_keys(steps, given.view, {0: grown}).selected, expected.selected)


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("length", [0, 1, 5, 8, 13])
def test_a_state_that_was_cropped_or_chosen_goes_on_with_other_keys(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    length: int,
) -> None:
    given = scene("k" * 14, "...kkkk.kkkkkk", queries=1)
    other = scene("k" * 14, "...kkkk.kkkkkk", queries=1, seed=9)
    other.key[:, :, :length] = given.key[:, :, :length]
    steps = steps_of((name, CASES[name][0]))
    (state,) = states_of(steps, given).values()
    (expected,) = states_of(steps, given).values()
    expected.crop(0)
    expected.update(other.key, other.tokens)
    state.crop(length)
    assert state.seen <= length
    state.update(other.key, other.tokens)
    found = kept_keys(steps, other.view, {0: state}).selected
    assert torch.equal(found, kept_keys(steps, other.view, {0: expected}).selected)
    state.rows(torch.tensor([1, 1, 0]))
    three = type(other)(
        query=other.query[[1, 1, 0]],
        key=other.key[[1, 1, 0]],
        value=other.value[[1, 1, 0]],
        tokens=other.tokens[[1, 1, 0]],
    )
    assert torch.equal(
        kept_keys(steps, three.view, {0: state}).selected[:, 0].any(0),
        found[[1, 1, 0]][:, 0].any(0),
    )


def test_random_numbers_are_the_same_in_any_batch_and_any_block(
    scene: Callable[..., Scene],
) -> None:
    whole = scene(*("k" * 9,) * 3, queries=4).view
    samples = torch.tensor([7, 8, 9])
    numbers = replace(whole, samples=samples).uniform(5, seed=1)
    alone = replace(
        whole,
        query=whole.query[1:2, :, 2:],
        visible=whole.visible[1:2, :, 2:],
        samples=samples[1:2],
    ).uniform(3, seed=1)
    assert torch.equal(alone, numbers[1:2, :, 2:, :3])
    assert len(numbers.flatten().unique()) > 230  # of 240
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert abs(float(replace(whole, samples=samples).uniform(4000, seed=1).mean()) - 0.5) < 0.01


def test_sampling_has_no_bias_in_the_softmaxs_sum(scene: Callable[..., Scene]) -> None:
    """With replacement and weights that add up; drawing each key once would lose a fifth."""
    given = scene("k" * 200, queries=1)
    mass = given.view.scores().exp()
    ratios = []
    for seed in range(40):
        (step,) = built(("random_sampling", {"rate": 0.5, "seed": seed}))
        kept = kept_of([step], given)
        assert kept.weight is not None
        ratios.append(float((kept.weight * mass).sum() / mass.sum()))
    assert abs(sum(ratios) / len(ratios) - 1) < 0.03


@pytest.mark.parametrize(("tables", "shares"), [(1, (0.14, 0.39, 0.78)), (2, (0.01, 0.09, 0.44))])
def test_two_equal_codes_are_rarer_than_one(
    tables: int, shares: tuple[float, float, float]
) -> None:
    step: Any = built(("magic_pig", {"k": 10, "l": 150, "tables": tables}))[0]
    cosine = torch.tensor([0.0, 0.2, 0.4])
    chance = step.chance((1 - cosine.acos() / math.pi) ** 10)
    assert chance.tolist() == pytest.approx(shares, abs=0.006)


def test_adaptive_sampling_bounds_the_error_of_the_sum(scene: Callable[..., Scene]) -> None:
    given = scene("k" * 400, queries=1)
    mass = given.view.scores().exp()
    epsilon, delta, errors = 0.1, 0.1, []
    for seed in range(50):
        params = {"base_rate": 0.1, "epsilon": epsilon, "delta": delta, "seed": seed}
        kept = kept_of(built(("adaptive_sampling", params)), given)
        weight = kept.selected.float() if kept.weight is None else kept.weight
        errors += ((weight * mass).sum(-1) / mass.sum(-1) - 1).abs().flatten().tolist()
    assert sum(error > epsilon for error in errors) / len(errors) < 2 * delta


def test_weights_are_added_as_logarithms(scene: Callable[..., Scene]) -> None:
    """A key of weight 2 counts as two equal keys."""
    given = scene("kkkk", queries=1)
    attention = SparseAttention()
    attention.steps = built(("random_sampling", {"rate": 0.5}))
    with attention.counting(Tally(1, "cpu"), given.counted):
        output, _ = attention(
            given.module, given.query, given.key, given.value, given.visible, scaling=0.25
        )
    kept = kept_of(attention.steps, given)
    assert kept.weight is not None
    for head in range(4):
        weights = kept.weight[0, head, 0] * given.view.scores()[0, head, 0].exp()
        expected = (weights / weights.sum()) @ given.value[0, head // 2]
        assert torch.allclose(output[0, 0, head], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "question", "dense"),
    [(1, "sparse", True), (2, "dense", True), (2, "sparse", False)],
)
def test_dense_layers_and_dense_questions_are_dense_and_counted(
    scene: Callable[..., Scene], layer: int, question: str, dense: bool
) -> None:
    given = scene("k" * 40, queries=3)
    module = given.module
    module.layer_idx = layer
    params = {"heavy_size": 4, "page_size": 4, "question": question, "dense_layers": [1]}
    attention = SparseAttention()
    attention.steps = built(("quest", params))
    tally = Tally(1, "cpu")
    with attention.counting(tally, given.counted):
        attention(module, given.query, given.key, given.value, given.visible, scaling=0.25)
    assert (tally.means() == [(1.0, 0.0)]) == dense


def test_every_config_with_a_choice_has_a_reference() -> None:
    assert set(CASES) <= set(REFERENCES)


def test_adaptive_sampling_has_no_bias_in_the_softmaxs_sum(scene: Callable[..., Scene]) -> None:
    """The keys that its budget was estimated from are not drawn again: few draws are asked for
    where these happen to lack the heavy keys."""
    given = scene("k" * 300, queries=1, scaling=0.5)
    mass = given.view.scores().exp()
    ratios = []
    for seed in range(400):
        params = {"base_rate": 0.05, "epsilon": 0.3, "delta": 0.2, "seed": seed}
        kept = kept_of(built(("adaptive_sampling", params)), given)
        weight = kept.selected.float() if kept.weight is None else kept.weight
        ratios.append(((weight * mass).sum(-1) / mass.sum(-1)).flatten())
    spread = torch.stack(ratios)
    error = spread.std(0) / len(ratios) ** 0.5
    assert ((spread.mean(0) - 1).abs() < 4 * error).all()
