"""Where other implementations differ from ours: one test for each row of that table in
docs/attention.md. "Hub" is sparse-attention-hub. kvpress, which evicts keys, is refused by name:
`tests/unit/campaign/test_configs.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pytest
import torch
from safetensors.torch import save_file

from attention_reference import built, kept_of, states_of
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import KeptKeys
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.state import Shape
from benchfleet.models.attention.tally import Tally

from .conftest import Scene


def columns(kept: KeptKeys, head: int = 0, row: int = 0) -> list[int]:
    """The columns that the last query of a row and head keeps."""
    selected = kept.selected.expand(-1, max(head + 1, kept.selected.shape[1]), -1, -1)
    places: list[int] = torch.nonzero(selected[row, head, -1]).flatten().tolist()
    return places


def test_fractions_are_of_the_keys_that_a_query_sees_and_are_rounded_up(
    scene: Callable[..., Scene],
) -> None:
    given = scene("...kkkkkkk", queries=1)  # 7 keys in 10 columns: the hub keeps 5
    assert columns(kept_of(built(("local", {"window_size": 0.5})), given)) == [6, 7, 8, 9]


def test_a_budget_of_all_keys_but_one_is_not_all_keys(scene: Callable[..., Scene]) -> None:
    given = scene("k" * 10, queries=1)
    assert len(columns(kept_of(built(("oracle_top_k", {"heavy_size": 9})), given))) == 9


def test_a_sampled_key_keeps_its_weight_and_an_earlier_step_its_own(
    scene: Callable[..., Scene],
) -> None:
    given = scene("k" * 40, queries=1)
    steps = built(("local", {"window_size": 20}), ("random_sampling", {"rate": 0.2}))
    weight = kept_of(steps, given).weight
    assert weight is not None
    assert set(weight[0, :, 0, 20:].flatten().tolist()) == {1.0}
    sampled = weight[0, :, 0, :20]
    assert (sampled[sampled > 0] >= 5).all()  # each draw stands for 20 keys / 4 draws


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_a_key_that_is_drawn_twice_counts_twice(scene: Callable[..., Scene], rate: float) -> None:
    given = scene("k" * 200, queries=1)
    weight = kept_of(built(("random_sampling", {"rate": rate})), given).weight
    assert weight is not None
    assert weight.sum(-1).flatten().tolist() == pytest.approx([200.0] * 4)
    assert (weight > 1.5 / rate).any()  # some were


def test_adaptive_sampling_draws_by_the_two_sided_quantile_and_from_no_kept_key(
    scene: Callable[..., Scene],
) -> None:
    given = scene("k" * 4000, queries=1)
    draws = {}
    for delta in (0.05, 0.25):
        params = {"base_rate": 0.01, "epsilon": 0.05, "delta": delta}
        steps = built(("sink", {"sink_size": 8}), ("adaptive_sampling", params))
        weight = kept_of(steps, given).weight
        assert weight is not None
        assert set(weight[0, :, 0, :8].flatten().tolist()) == {1.0}
        sampled = weight[0, :, 0, 8:]
        draws[delta] = 3992 / sampled.masked_fill(sampled == 0, math.inf).amin(-1)
    z = {delta: NormalDist().inv_cdf(1 - delta / 2) for delta in draws}  # one-sided: a ratio of 6
    expected = [(z[0.05] / z[0.25]) ** 2] * 4
    assert (draws[0.05] / draws[0.25]).tolist() == pytest.approx(expected, rel=0.02)


def test_adaptive_sampling_behind_nothing_takes_no_key_for_kept(
    scene: Callable[..., Scene],
) -> None:
    given = scene("k" * 60, queries=1)
    params = {"base_rate": 0.1, "epsilon": 1.0, "delta": 0.9}
    weight = kept_of(built(("adaptive_sampling", params)), given).weight
    assert weight is not None
    assert weight.sum(-1).flatten().tolist() == pytest.approx([60.0] * 4)


def test_magic_pig_centres_keys_and_not_queries(scene: Callable[..., Scene]) -> None:
    """A vector that is added to all keys changes no choice; it would if queries moved too."""
    given = scene("k" * 60, queries=1)
    steps = built(("magic_pig", {"k": 2, "l": 8}))
    shifted = replace(given, key=given.key + 3.0)
    assert torch.equal(kept_of(steps, given).selected, kept_of(steps, shifted).selected)
    moved = replace(
        given, query=given.query - given.key.mean(2).repeat_interleave(2, 1)[:, :, None]
    )
    assert not torch.equal(kept_of(steps, given).selected, kept_of(steps, moved).selected)


def test_magic_pig_needs_two_equal_codes_and_weighs_by_their_chance(
    scene: Callable[..., Scene],
) -> None:
    given = scene("k" * 200, queries=1)
    counts = {}
    for tables in (1, 2):
        steps = built(("magic_pig", {"k": 6, "l": 10, "tables": tables}))
        counts[tables] = int(kept_of(steps, given).selected.sum())
    assert counts[2] < counts[1] / 2
    same = torch.tensor([0.1])
    (step,) = built(("magic_pig", {"k": 10, "l": 150}))
    expected = 1 - 0.9**150 - 150 * 0.1 * 0.9**149
    assert step.chance(same).item() == pytest.approx(expected, rel=1e-5)  # type: ignore[attr-defined]


def test_double_sparsity_has_the_channels_of_each_layer(tmp_path: Path) -> None:
    lists = {
        f"model.layers.{layer}.self_attn.qk_proj": [[layer, layer + 1]] * 4 for layer in (0, 1)
    }
    (tmp_path / "channels.json").write_text(json.dumps(lists))
    file = str(tmp_path / "channels.json")
    (step,) = built(("double_sparsity", {"heavy_size": 4, "sorted_channel_file": file}))
    chosen = []
    for layer in (0, 1):
        shape = Shape(layer=layer, heads=4, key_heads=2, dim=32, device=torch.device("cpu"))
        chosen.append(step.new_state(shape)._channels.flatten().unique().tolist())  # type: ignore[union-attr]
    assert chosen == [[0, 1], [1, 2]]


@pytest.mark.parametrize("channels", [[0, 1], [0, 1, 2, 8], [0, 1, 2, -1]])
def test_double_sparsity_refuses_a_file_of_another_model(
    tmp_path: Path, channels: list[int]
) -> None:
    """With fewer channels than it asks for it would choose by these alone, and say nothing."""
    file = tmp_path / "channels.json"
    file.write_text(json.dumps({"model.layers.0.self_attn.qk_proj": [channels] * 2}))
    params = {"heavy_size": 4, "sorted_channel_file": str(file), "group_factor": 2}
    (step,) = built(("double_sparsity", params))
    shape = Shape(layer=0, heads=2, key_heads=2, dim=8, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="needs 4 channels from 0 to 7 for each head"):
        step.new_state(shape)


def test_pq_cache_chooses_for_a_key_head_in_two_sub_spaces(scene: Callable[..., Scene]) -> None:
    given = scene("k" * 40, queries=1, heads=4)
    steps = built(("pq_cache", {"heavy_size": 6, "bits": 2, "init_offset": 2}))
    kept = kept_of(steps, given)
    for head in (0, 2):
        assert columns(kept, head) == columns(kept, head + 1)
        assert len(columns(kept, head)) == 6
    assert states_of(steps, given)[0].centroids.shape[2] == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(("heavy", "pages"), [(4, 1), (8, 2), (5, 2)])
def test_quest_keeps_any_number_of_pages_and_always_the_one_being_filled(
    scene: Callable[..., Scene], heavy: int, pages: int
) -> None:
    params = {"heavy_size": heavy, "page_size": 4, "dense_layers": []}
    for row in ("k" * 22, "..." + "k" * 22):  # pages by rank: padding shifts none
        given = scene(row, queries=1)
        for head in range(4):
            found = columns(kept_of(built(("quest", params)), given), head)
            assert found[-2:] == [len(row) - 2, len(row) - 1]  # keys 20 and 21 fill the last page
            assert len(found) == 2 + 4 * (pages - 1)


def test_oracle_top_p_stops_where_the_mass_is_reached_and_takes_no_more_ties(
    scene: Callable[..., Scene],
) -> None:
    given = scene("k" * 8, queries=1)
    given.query.zero_()  # all keys tie, with an eighth each
    assert columns(kept_of(built(("oracle_top_p", {"top_p": 0.5})), given)) == [4, 5, 6, 7]
    behind = ("sink", {"sink_size": 2})
    of_all = kept_of(built(behind, ("oracle_top_p", {"top_p": 0.5})), given)
    of_rest = kept_of(built(behind, ("oracle_top_p", {"top_p": 0.5, "of": "rest"})), given)
    assert (columns(of_all), columns(of_rest)) == ([0, 1, 6, 7], [0, 1, 5, 6, 7])


@pytest.mark.parametrize("name", ["quest", "double_sparsity", "magic_pig"])
def test_a_question_is_sparse_unless_it_is_to_be_dense(
    scene: Callable[..., Scene], steps_of: Callable[..., tuple[AttentionConfig, ...]], name: str
) -> None:
    given = scene("k" * 30, queries=3)
    base = {"quest": {"heavy_size": 4, "page_size": 4}, "double_sparsity": {"heavy_size": 4}}
    densities = []
    for more in ({}, {"question": "dense"}):
        attention = SparseAttention()
        params = {**base.get(name, {"k": 4, "l": 4}), "dense_layers": [], **more}
        attention.steps = steps_of((name, params))
        tally = Tally(1, "cpu")
        with attention.counting(tally, given.counted):
            call = (given.module, given.query, given.key, given.value, given.visible)
            attention(*call, scaling=given.scaling)
        (mean,) = tally.means()
        assert mean is not None
        densities.append(mean[0])
    assert densities[0] < densities[1] == 1


def test_of_equal_codes_hash_attention_keeps_the_later_key_and_zero_is_positive(
    scene: Callable[..., Scene], tmp_path: Path
) -> None:
    zeros = {}
    for of in ("query", "key"):
        for layer, (start, end) in enumerate([(8, 5), (5, 5), (5, 6)]):
            zeros[f"layers.0.{of}.{layer}.weight"] = torch.zeros(4, start, end)
            zeros[f"layers.0.{of}.{layer}.bias"] = torch.zeros(4, end)
    save_file(zeros, tmp_path / "zeros.safetensors")
    params = {"heavy_size": 3, "bits": 6, "weights": str(tmp_path / "zeros.safetensors")}
    steps = built(("hash_attention", params))
    given = scene("k" * 12, queries=1)
    codes = states_of(steps, given)[0].vectors  # type: ignore[attr-defined]
    assert set(codes.flatten().tolist()) == {1}
    assert columns(kept_of(steps, given)) == [9, 10, 11]


def test_a_mean_is_fitted_when_the_context_ends_whatever_is_asked_first(
    scene: Callable[..., Scene],
) -> None:
    """The hub fits it with the first question, so that answers depend on their order."""
    given = scene("k" * 40, queries=1)
    steps = built(("magic_pig", {"k": 2, "l": 8}))
    (state,) = states_of(steps, given).values()
    centred = state.centred(given.key)  # type: ignore[attr-defined]
    longer = torch.cat((given.key, given.key[:, :, :5] + math.pi), 2)
    state.update(longer, torch.ones(1, 45, dtype=torch.bool))
    assert torch.equal(state.centred(given.key), centred)  # type: ignore[attr-defined]
