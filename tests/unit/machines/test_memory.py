"""Memory by the field's formula, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchfleet.machines.memory import Checkpoint

LLAMA_8B: dict[str, Any] = {
    "dtype": "bfloat16",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 131_072,
}
TOKEN = 128 * 2**10  # bytes that a token of it takes in bfloat16: 2 × 32 × 8 × 128 × 2
PARAMETERS = 8_030_261_248


def _llama(**changed: Any) -> Checkpoint:
    return Checkpoint(elements={"BF16": PARAMETERS}, config={**LLAMA_8B, **changed})


def test_a_gpu_takes_the_checkpoint_s_own_type_and_the_benchmark_s_length() -> None:
    found = _llama().estimate(device="gpu", model_kwargs={}, batch=4, length=1000)
    assert found.weights == 2 * PARAMETERS
    assert found.cache == 4 * 1000 * TOKEN
    assert (found.tokens, found.bounded_by) == (4000, "benchmark")
    assert found.overhead >= 0.2 * found.weights
    assert found.total == found.weights + found.cache + found.overhead


def test_a_cpu_takes_float32_unless_a_type_is_named() -> None:
    plain = _llama().estimate(device="cpu", model_kwargs={}, batch=1, length=10)
    assert (plain.weights, plain.cache) == (4 * PARAMETERS, 10 * 2 * TOKEN)
    for dtype in ("bfloat16", "torch.bfloat16", "auto"):
        named = _llama().estimate(device="cpu", model_kwargs={"dtype": dtype}, batch=1, length=10)
        assert (named.weights, named.cache) == (2 * PARAMETERS, 10 * TOKEN)


@pytest.mark.parametrize("length", [None, 131_072, 10**9])
def test_the_model_bounds_what_the_benchmark_leaves_open(length: int | None) -> None:
    found = _llama().estimate(device="gpu", model_kwargs={}, batch=1, length=length)
    assert found.cache == 16 * 2**30
    assert found.bounded_by == ("benchmark" if length == 131_072 else "model")


def test_the_example_of_a_32_b_model_overflows_a_card_of_24_gb() -> None:
    """64 layers and 8 key heads of 128: 256 KiB a token, so 32k of context are 8 GiB."""
    config = {
        **LLAMA_8B,
        "num_hidden_layers": 64,
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "head_dim": 128,
    }
    model = Checkpoint(elements={"BF16": 32_800_000_000}, config=config)
    kwargs = {"quantization_config": {"load_in_4bit": True}}
    found = model.estimate(device="gpu", model_kwargs=kwargs, batch=1, length=32_768)
    assert found.cache == 8 * 2**30
    assert found.weights == 16_400_000_000
    assert found.total > 24 * 10**9


def test_weights_quantised_by_quanto_count_with_their_bits() -> None:
    model = Checkpoint(elements={"BF16": 1000}, config=LLAMA_8B)
    kwargs = {"quantization_config": {"quant_method": "quanto", "weights": "int8"}}
    found = model.estimate(device="gpu", model_kwargs=kwargs, batch=1, length=1)
    assert found.weights == 1000


def test_stored_bytes_count_where_weights_are_quantised_in_the_files() -> None:
    model = Checkpoint(elements={"I32": 1000, "F16": 100, "U8": 7}, config=LLAMA_8B)
    found = model.estimate(device="gpu", model_kwargs={"dtype": "float32"}, batch=1, length=1)
    assert found.weights == 1000 * 4 + 100 * 4 + 7


def test_layers_that_slide_hold_their_window_and_recurrent_ones_nothing() -> None:
    kinds = ["full_attention"] * 2 + ["sliding_attention"] * 20 + ["linear_attention"] * 10
    model = _llama(layer_types=kinds, sliding_window=512)
    found = model.estimate(device="gpu", model_kwargs={}, batch=1, length=10_000)
    assert found.cache == (2 * 10_000 + 20 * 512) * TOKEN // 32
    short = model.estimate(device="gpu", model_kwargs={}, batch=1, length=100)
    assert short.cache == 22 * 100 * TOKEN // 32


def test_older_names_in_the_config_are_known() -> None:
    gpt2 = {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}
    model = Checkpoint(elements={"F32": 124_439_808}, config=gpt2)
    found = model.estimate(device="gpu", model_kwargs={}, batch=1, length=None)
    assert found.weights == 4 * 124_439_808
    assert found.cache == 2 * 12 * 768 * 1024 * 4


@pytest.mark.parametrize(
    ("weights", "config", "kwargs", "message"),
    [
        ("F16", {"num_hidden_layers": 3}, {}, "does not say num_attention_heads"),
        ("F16", {}, {}, "does not say num_hidden_layers"),
        ("F16", LLAMA_8B, {"dtype": "float12"}, "nothing is known of the type float12"),
        ("F16", LLAMA_8B, {"quantization_config": {"bits": 3}}, "nothing is known of its quant"),
        ("F16", LLAMA_8B, {"quantization_config": "awq"}, "nothing is known of its quant"),
        ("Q7_X", LLAMA_8B, {}, "nothing is known of the type Q7_X"),
    ],
)
def test_what_is_not_said_is_not_guessed(
    weights: str, config: dict[str, Any], kwargs: dict[str, Any], message: str
) -> None:
    model = Checkpoint(elements={weights: 1}, config=config)
    with pytest.raises(ValueError, match=message):
        model.estimate(device="gpu", model_kwargs=kwargs, batch=1, length=None)
