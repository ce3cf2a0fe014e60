"""Each config of the library against slow loops, alone and behind sinks and a window."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from attention_reference import (
    REFERENCES,
    built,
    expected_weights,
    found_weights,
    kept_of,
    states_of,
)
from benchfleet.domain.cell import AttentionStep
from benchfleet.models.attention.compose import check_steps, kept_keys
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.tally import Tally

SCENES: dict[str, tuple[tuple[str, ...], int]] = {
    "prefill": (("k" * 14,), 14),
    "decoding": (("k" * 21,), 1),
    "left padding": (("k" * 15 + "qqq", "..." + "k" * 12 + "qqq", "." * 12 + "kkkqqq"), 3),
    "holes": (("kkkkkkkkkkk.qqqq", "..kkkkkkkkk...qq", "...........qqqqq"), 5),
    "padding alone in a row": (("......", "kkkqqq"), 3),
}
CASES: dict[str, list[dict[str, Any]]] = {
    "oracle_top_p": [{"top_p": 0.6}, {"top_p": 1.0}, {"top_p": 0.5, "of": "rest"}],
    "quest": [
        {"heavy_size": 6, "page_size": 3},
        {"heavy_size": 0.4, "page_size": 2, "share": "group"},
        {"heavy_size": 0, "page_size": 4},
        {"heavy_size": 99, "page_size": 4},
    ],
    "double_sparsity": [
        {"heavy_size": 4, "group_factor": 2},
        {"heavy_size": 0.3, "group_factor": 4, "share": "group", "channel_selection": "k_proj"},
        {"heavy_size": 99},
    ],
    "hash_attention": [{"heavy_size": 5, "bits": 6}, {"heavy_size": 0.2, "bits": 6}],
    "random_sampling": [{"rate": 0.3}, {"rate": 1.0}, {"rate": 0.8, "seed": 3}],
    "magic_pig": [
        {"k": 2, "l": 6},
        {"k": 1, "l": 3, "tables": 1, "center": False},
        {"k": 3, "l": 5, "tables": 3},
    ],
    "pq_cache": [
        {"heavy_size": 4, "bits": 2, "init_offset": 2},
        {"heavy_size": 0.3, "bits": 1, "sub_dim": 2, "share": "head"},
    ],
    "adaptive_sampling": [
        {"base_rate": 0.2, "epsilon": 0.5, "delta": 0.3},
        {"base_rate": 0.1, "epsilon": 0.05, "delta": 0.05},
        {"base_rate": 0.3, "epsilon": 1.0, "delta": 0.9, "init_offset": 1, "local_offset": 2},
    ],
}
CASES["oracle_top_k"] = [{"heavy_size": 4}, {"heavy_size": 0}]
FAST_NAMES = {
    "double_sparsity",
    "hash_attention",
    "oracle_top_k",
    "pq_cache",
    "quest",
    "random_sampling",
}
ONE_OF_EACH = [(name, cases[0]) for name, cases in CASES.items()]


@pytest.fixture
def steps_of(tmp_path):
    """Builds steps; configs that read files get theirs, for two key heads under `heads` heads."""
    random = torch.Generator().manual_seed(5)

    def made(*steps, heads: int = 4):
        whole = []
        for name, params in steps:
            if name == "double_sparsity":
                of = params.get("channel_selection", "qk_proj")
                lists = [
                    torch.randperm(8, generator=random).tolist()
                    for _ in range(2 if of == "k_proj" else heads)
                ]
                file = tmp_path / "channels.json"
                file.write_text(json.dumps({f"model.layers.0.self_attn.{of}": lists}))
                params = {**params, "sorted_channel_file": str(file)}
            if name == "hash_attention":
                sizes = [8, 5, 5, params["bits"]]
                tensors = {}
                for of in ("query", "key"):
                    for layer, (start, end) in enumerate(pairwise(sizes)):
                        weight = torch.randn(heads, start, end, generator=random)
                        tensors[f"layers.0.{of}.{layer}.weight"] = weight
                        tensors[f"layers.0.{of}.{layer}.bias"] = weight[:, 0].clone()
                file = tmp_path / "hash.safetensors"
                save_file(tensors, file)
                params = {**params, "weights": str(file)}
            whole.append((name, params))
        return built(*whole)

    return made


def check(given, names, steps) -> None:
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


@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize(
    ("name", "params"), [(name, params) for name, cases in CASES.items() for params in cases]
)
@pytest.mark.parametrize("drawn", SCENES.values(), ids=SCENES.keys())
def test_a_config_keeps_what_the_slow_reference_keeps(scene, steps_of, drawn, name, params, heads):
    rows, queries = drawn
    given = scene(*rows, queries=queries, heads=heads)
    check(given, [name], steps_of((name, params), heads=heads))


@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_behind_sinks_and_a_window_it_adds_to_them(scene, steps_of, name, params):
    rows, queries = SCENES["holes"]
    given = scene(*rows, queries=queries)
    steps = steps_of(("sink", {"sink_size": 2}), ("local", {"window_size": 3}), (name, params))
    check(given, ["sink", "local", name], steps)


@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_in_half_precision_it_keeps_what_the_reference_keeps(scene, steps_of, name, params):
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


@pytest.mark.parametrize(("name", "params"), ONE_OF_EACH)
def test_padding_shifts_nothing(scene, steps_of, name, params):
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
def test_a_state_that_grows_is_that_of_all_keys(scene, steps_of, name, pieces):
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
def test_a_state_that_was_cropped_or_chosen_goes_on_with_other_keys(scene, steps_of, name, length):
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
    ) or name in ("random_sampling",)


def test_random_numbers_are_the_same_in_any_batch_and_any_block(scene):
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


def test_sampling_has_no_bias_in_the_softmaxs_sum(scene):
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
def test_two_equal_codes_are_rarer_than_one(tables, shares):
    step: Any = built(("magic_pig", {"k": 10, "l": 150, "tables": tables}))[0]
    cosine = torch.tensor([0.0, 0.2, 0.4])
    chance = step.chance((1 - cosine.acos() / math.pi) ** 10)
    assert chance.tolist() == pytest.approx(shares, abs=0.006)


def test_adaptive_sampling_bounds_the_error_of_the_sum(scene):
    given = scene("k" * 400, queries=1)
    mass = given.view.scores().exp()
    epsilon, delta, errors = 0.1, 0.1, []
    for seed in range(50):
        params = {"base_rate": 0.1, "epsilon": epsilon, "delta": delta, "seed": seed}
        kept = kept_of(built(("adaptive_sampling", params)), given)
        weight = kept.selected.float() if kept.weight is None else kept.weight
        errors += ((weight * mass).sum(-1) / mass.sum(-1) - 1).abs().flatten().tolist()
    assert sum(error > epsilon for error in errors) / len(errors) < 2 * delta


def test_weights_are_added_as_logarithms(scene):
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
def test_dense_layers_and_dense_questions_are_dense_and_counted(scene, layer, question, dense):
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


def test_every_config_with_a_choice_has_a_reference():
    assert set(CASES) <= set(REFERENCES)


def fast_and_measured(given, steps, mask=None):
    outputs, densities = [], []
    for fast in (False, True):
        attention = SparseAttention()
        attention.steps, attention.fast = steps, fast
        tally = Tally(len(given.query), "cpu")
        with attention.counting(tally, given.counted):
            call = (given.module, given.query, given.key, given.value, mask)
            outputs.append(attention(*call, scaling=given.scaling)[0])
        densities.append([mean and mean[0] for mean in tally.means()])
    return outputs, densities


FAST = [(name, p) for name, cases in CASES.items() for p in cases if name in FAST_NAMES]


@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("spans", [(), (("sink", {"sink_size": 2}), ("local", {"window_size": 5}))])
@pytest.mark.parametrize(("name", "params"), [*FAST, ("local", {"window_size": 4})])
def test_fast_gives_what_measure_gives(scene, steps_of, name, params, spans, heads):
    if name == "quest":
        params = {**params, "dense_layers": []}
    if name == "double_sparsity":
        params = {**params, "dense_layers": []}
    given = scene("k" * 30, "k" * 30, queries=1, heads=heads)
    outputs, densities = fast_and_measured(given, steps_of(*spans, (name, params), heads=heads))
    assert torch.allclose(*outputs, atol=1e-5)
    assert densities[0] == pytest.approx(densities[1], rel=1e-5)


def test_fast_in_a_padded_batch_is_masked_attention(scene, steps_of):
    given = scene("k" * 30, "...kkk" + "k" * 24, queries=1)
    steps = steps_of(("sink", {"sink_size": 2}), ("oracle_top_k", {"heavy_size": 4}))
    outputs, densities = fast_and_measured(given, steps, given.visible)
    assert torch.allclose(*outputs, atol=1e-6)
    assert densities[0] == densities[1]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["magic_pig"], "magic_pig has no fast form; use mode: measure"),
        (["oracle_top_k", "sink"], "takes one step such as oracle_top_k, and takes it last"),
        (["sink", "oracle_top_k"], None),
        (["sink", "local"], None),
    ],
)
def test_what_has_no_fast_form_is_refused_by_name(names, why):
    params = {
        "oracle_top_k": {"heavy_size": 3},
        "sink": {"sink_size": 2},
        "local": {"window_size": 3},
    }
    steps = [AttentionStep(name=name, params=params.get(name, {})) for name in names]
    found = check_steps(steps, fast=True)
    assert found == why or (why and found and why in found)
    assert check_steps(steps) is None
