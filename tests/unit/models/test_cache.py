"""The growing cache holds what transformers' own holds, and copies seldom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.cache_utils import DynamicLayer

from benchfleet.models.cache import GrowingLayer

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([1, 1, 1, 3, 300])),
        st.tuples(st.just("crop"), st.integers(0, 40)),
        st.tuples(st.just("choose"), st.lists(st.integers(0, 1), min_size=2, max_size=2)),
        st.tuples(st.just("repeat"), st.just(1)),
        st.tuples(st.just("reorder"), st.permutations([0, 1])),
        st.tuples(st.just("reset"), st.none()),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_it_holds_what_the_cache_of_transformers_holds(steps: Sequence[tuple[str, Any]]) -> None:
    random = torch.Generator().manual_seed(0)
    ours, theirs = GrowingLayer(), DynamicLayer()
    for what, how in [("add", 5), *steps]:
        if what == "add":
            key, value = torch.randn(2, 2, 3, how, 4, generator=random)
            mine, stock = ours.update(key, value), theirs.update(key, value)
            assert all(map(torch.equal, mine, stock))
        for layer in (ours, theirs):
            if what == "crop":
                layer.crop(-min(how, layer.get_seq_length()))
            elif what == "choose":
                layer.batch_select_indices(torch.tensor(how))
            elif what == "repeat":
                layer.batch_repeat_interleave(how)
            elif what == "reorder":
                layer.reorder_cache(torch.tensor(how))
            elif what == "reset":
                layer.reset()
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1) == theirs.get_mask_sizes(1)


def test_a_token_is_written_behind_the_others_without_a_copy() -> None:
    layer = GrowingLayer()
    layer.update(*torch.randn(2, 1, 2, 1000, 4))
    start = layer.keys.data_ptr(), layer.values.data_ptr()
    for _ in range(200):
        layer.update(*torch.randn(2, 1, 2, 1, 4))
    assert (layer.keys.data_ptr(), layer.values.data_ptr()) == start
    layer.crop(-200)
    layer.update(*torch.randn(2, 1, 2, 7, 4))
    assert (layer.keys.data_ptr(), layer.values.data_ptr()) == start


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_may_be_wider_than_keys(dtype: torch.dtype) -> None:
    layer = GrowingLayer()
    key, value = torch.randn(1, 2, 9, 4).to(dtype), torch.randn(1, 2, 9, 6).to(dtype)
    keys, values = layer.update(key, value)
    assert torch.equal(keys, key)
    assert torch.equal(values, value)
