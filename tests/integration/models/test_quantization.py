"""Quantised weights, and rounded keys and values, alone and with attention."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from benchfleet.domain.cell import Config
from benchfleet.errors import CellFailure
from benchfleet.models import quantization
from benchfleet.models.quantized_cache import packed, unpacked
from benchfleet.models.transformers import TransformersAdapter

from .conftest import (
    DEMO,
    DENSE,
    PROMPTS,
    QUEST,
    SHORT,
    STREAMING,
    LoadAdapter,
    Watched,
    config,
    loaded,
    one_by_one,
    texts,
)


@pytest.mark.parametrize(("bits", "channels"), [(8, 6), (4, 6), (8, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_vector_is_rounded_between_its_least_and_greatest_number(
    bits: int, channels: int, dtype: torch.dtype
) -> None:
    vectors = torch.randn(2, 3, 7, channels, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = unpacked(packed(vectors, bits), bits)
    exact = vectors.float()
    least, greatest = exact.amin(-1, keepdim=True), exact.amax(-1, keepdim=True)
    step = (greatest - least) / (2**bits - 1)
    assert bool(((found - exact).abs() <= step / 2 + 1e-6).all())
    assert torch.allclose(found.amin(-1, keepdim=True), least)
    levels = (found - least) / step
    assert torch.allclose(levels, levels.round(), atol=1e-3)
    assert packed(vectors, bits).shape[-1] == channels * bits // 8 + 8


def test_an_odd_number_of_channels_takes_no_four_bits() -> None:
    with pytest.raises(ValueError, match="use int8"):
        packed(torch.ones(1, 1, 1, 5), 4)


def first_logits(mine: TransformersAdapter, given: Config) -> torch.Tensor:
    mine.configure(given)
    watched = Watched(mine)
    mine.answer(PROMPTS[:1], {"max_new_tokens": 1})
    return watched.logits[-1].float()


def test_fewer_bits_are_farther_from_the_exact_answer(adapter: LoadAdapter) -> None:
    mine = adapter()
    exact = first_logits(mine, DENSE)
    off = {
        name: float((first_logits(mine, replace(DENSE, kv_cache=name)) - exact).norm())
        for name in ("int8", "int4")
    }
    assert 0 < off["int8"] < off["int4"] < float(exact.norm())
    mine.configure(replace(DENSE, kv_cache="int8"))
    assert mine.provenance()["cache"] == "int8"
    assert torch.equal(first_logits(mine, DENSE), exact)


@pytest.mark.parametrize("kind", ["gqa", "opt", "gpt2"])
@pytest.mark.parametrize("given", [DENSE, STREAMING, QUEST, replace(QUEST, mode="fast")])
def test_a_rounded_cache_gives_the_same_in_any_batch_and_from_memory(
    adapter: LoadAdapter, kind: str, given: Config
) -> None:
    mine = adapter(kind)
    mine.configure(replace(given, kv_cache="int8"))
    alone = one_by_one(mine, PROMPTS)
    assert texts(mine.answer(PROMPTS, SHORT)) == texts(alone)
    again = [replace(PROMPTS[0], question=" again?"), PROMPTS[0]]  # one context, two questions
    mine.configure(replace(given, kv_cache="int8"))
    assert texts(one_by_one(mine, again))[1] == texts(alone)[0]


def test_a_model_with_a_window_takes_no_rounded_cache(adapter: LoadAdapter) -> None:
    mine = adapter("sliding")
    with pytest.raises(CellFailure, match="leave kv_cache out"):
        mine.configure(replace(DENSE, kv_cache="int8"))


def test_a_harness_with_a_cache_of_its_own_takes_no_rounded_one(adapter: LoadAdapter) -> None:
    mine = adapter()
    mine.configure(replace(DENSE, kv_cache="int4"))
    with pytest.raises(CellFailure, match="leave kv_cache out"), mine.lend():
        pass


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.filterwarnings("ignore")
def test_weights_are_quantised_as_they_are_loaded_alone_and_with_attention(
    adapter: LoadAdapter, bits: int
) -> None:
    exact = first_logits(adapter(DEMO), DENSE)
    mine = adapter(DEMO, quantization_config={f"load_in_{bits}bit": True})
    rounded = first_logits(mine, DENSE)
    assert 0 < float((rounded - exact).norm()) < float(exact.norm())
    layers = {type(layer).__name__ for layer in loaded(mine).model.modules()}
    assert {8: "Linear8bitLt", 4: "Linear4bit"}[bits] in layers
    mine.configure(config(("streaming", {"sink_size": 1, "window_size": 3})))
    (answer,) = mine.answer(PROMPTS[:1], SHORT)
    assert answer.measures["density"] < 1


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_method_whose_package_is_missing_is_refused_by_name(
    adapter: LoadAdapter, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def missing(package: str) -> None:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(quantization, "version", missing)
    with pytest.raises(CellFailure, match=f"quantization by {method} needs gptqmodel") as caught:
        adapter(quantization_config={"quant_method": method, "bits": 4})
    assert caught.value.kind == "missing_extra"
