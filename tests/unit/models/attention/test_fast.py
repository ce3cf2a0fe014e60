"""Mode fast keeps what mode measure keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attention_cases import CASES, FAST_NAMES
from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import check_steps
from benchfleet.models.attention.forward import SparseAttention
from benchfleet.models.attention.tally import Tally

from .conftest import Scene


def fast_and_measured(
    given: Scene, steps: tuple[AttentionConfig, ...], mask: torch.Tensor | None = None
) -> tuple[list[torch.Tensor], list[list[float | None]]]:
    outputs, densities = [], []
    for fast in (False, True):
        attention = SparseAttention()
        attention.steps, attention.fast = steps, fast
        tally = Tally(len(given.query), "cpu")
        with attention.counting(tally, given.counted):
            call = (given.module, given.query, given.key, given.value, mask)
            outputs.append(attention(*call, scaling=given.scaling, softcap=given.softcap)[0])
        densities.append([mean and mean[0] for mean in tally.means()])
    return outputs, densities


FAST = [(name, p) for name, cases in CASES.items() for p in cases if name in FAST_NAMES]


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("heads", [2, 6])
@pytest.mark.parametrize("spans", [(), (("sink", {"sink_size": 2}), ("local", {"window_size": 5}))])
@pytest.mark.parametrize(("name", "params"), [*FAST, ("local", {"window_size": 4})])
def test_fast_gives_what_measure_gives(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    name: str,
    params: Mapping[str, Any],
    spans: Sequence[tuple[str, dict[str, int]]],
    heads: int,
    softcap: float | None,
) -> None:
    if name == "quest":
        params = {**params, "dense_layers": []}
    if name == "double_sparsity":
        params = {**params, "dense_layers": []}
    given = scene("k" * 30, "k" * 30, queries=1, heads=heads, softcap=softcap)
    outputs, densities = fast_and_measured(given, steps_of(*spans, (name, params), heads=heads))
    assert torch.allclose(*outputs, atol=1e-5)
    assert densities[0] == pytest.approx(densities[1], rel=1e-5)


def test_fast_in_a_padded_batch_is_masked_attention(
    scene: Callable[..., Scene], steps_of: Callable[..., tuple[AttentionConfig, ...]]
) -> None:
    given = scene("k" * 30, "...kkk" + "k" * 24, queries=1)
    steps = steps_of(("sink", {"sink_size": 2}), ("oracle_top_k", {"heavy_size": 4}))
    outputs, densities = fast_and_measured(given, steps, given.visible)
    assert torch.allclose(*outputs, atol=1e-6)
    assert densities[0] == densities[1]


def _waits(*args: Any) -> None:
    raise AssertionError("this asks the device for a number, and waits for it")


@pytest.mark.parametrize(("name", "params"), FAST)
def test_decoding_a_token_never_waits_for_the_device(
    scene: Callable[..., Scene],
    steps_of: Callable[..., tuple[AttentionConfig, ...]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    params: Mapping[str, Any],
) -> None:
    if name in ("quest", "double_sparsity"):
        params = {**params, "dense_layers": []}
    given = scene("k" * 30, "k" * 30, queries=1)
    steps = steps_of(("sink", {"sink_size": 2}), (name, params))
    attention, cache = SparseAttention(), SimpleNamespace(layers=[SimpleNamespace(states={})])
    attention.steps, attention.fast = steps, True
    tally = Tally(2, "cpu")
    for keys in (20, 25):  # the context, whose end a state may be fitted to, and a token
        key, value = given.key[:, :, :keys], given.value[:, :, :keys]
        with attention.counting(tally, given.counted, cache=cache):
            attention(given.module, given.query, key, value, None, scaling=given.scaling)
        for method in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist"):
            monkeypatch.setattr(torch.Tensor, method, _waits)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["magic_pig"], "magic_pig has no fast form; use mode: measure"),
        (["oracle_top_k", "sink"], "takes one step such as oracle_top_k, and takes it last"),
        (["sink", "oracle_top_k"], None),
        (["sink", "local"], None),
    ],
)
def test_what_has_no_fast_form_is_refused_by_name(names: Sequence[str], why: str | None) -> None:
    params = {
        "oracle_top_k": {"heavy_size": 3},
        "sink": {"sink_size": 2},
        "local": {"window_size": 3},
    }
    steps = [AttentionStep(name=name, params=params.get(name, {})) for name in names]
    found = check_steps(steps, fast=True)
    assert found == why or (why and found and why in found)
    assert check_steps(steps) is None
