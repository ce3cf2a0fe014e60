"""What sets families of models apart: windows, columns, and attention that is not sdpa."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version

from benchfleet.models.architecture import WITHOUT_SDPA
from benchfleet.models.base import Prompt

from .conftest import PROMPTS, SHORT, STREAMING, LoadAdapter, Watched, config, loaded

FAMILIES = ["gqa", "qwen2", "qwen3", "sliding", "phi", "phi3", "gemma", "gpt_neox", "opt", "gpt2"]
SOFTCAPPED = ["vaultgemma", "gemma2"]
SINK, WINDOW = 2, 5


def _sink_and_window(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention to the first and the last keys, by its definition; one row without padding. A
    layer with a sliding window has that alone."""
    width, sinks = (window, 0) if (window := kwargs.get("sliding_window")) else (WINDOW, SINK)
    groups, keys = query.shape[1] // key.shape[1], key.shape[2]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    place = torch.arange(keys)
    own = torch.arange(keys - query.shape[2], keys)[:, None]
    kept = (place <= own) & ((place < sinks) | (place > own - width))
    scores = (query @ key.transpose(-1, -2)) * (scaling or query.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~kept, float("-inf")).softmax(-1)
    return (weights @ value).transpose(1, 2), None


@pytest.mark.parametrize("kind", [*FAMILIES, *SOFTCAPPED])
def test_sparse_logits_of_a_family_are_those_of_the_definition(
    adapter: LoadAdapter, checkpoint: Callable[..., Path], kind: str
) -> None:
    kwargs = {"sliding_window": None} if kind == "sliding" else {}
    mine = adapter(kind, **kwargs)
    steps = ("sink", {"sink_size": SINK}), ("local", {"window_size": WINDOW})
    mine.configure(config(*steps, everywhere=True))
    watched = Watched(mine)
    (answer,) = mine.answer(PROMPTS[:1], SHORT)
    name = "sink_and_window" + ("" if kind in SOFTCAPPED else "_sdpa")
    transformers.AttentionInterface.register(name, _sink_and_window)
    transformers.masking_utils.AttentionMaskInterface.register(
        name, transformers.masking_utils.sdpa_mask
    )
    encoded = loaded(mine).encoder.encode(PROMPTS[0], max_new_tokens=6)
    ids = [*encoded.context, *encoded.question]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        checkpoint(kind), dtype=torch.float32, **kwargs
    ).eval()
    model.set_attn_implementation(name)
    for logits in watched.logits[1:]:  # behind the context's: of the question, and of each token
        with torch.inference_mode():
            expected = model(torch.tensor([ids]), use_cache=False).logits[:, -1]
        assert torch.allclose(logits[:, -1], expected, atol=1e-4)
        ids.append(int(expected.argmax()))
    assert answer.measures["density"] < 1


@pytest.mark.parametrize("kind", ["mpt", "gpt_neo"])
def test_padding_shifts_no_position_of_models_that_count_columns(
    adapter: LoadAdapter, kind: str
) -> None:
    mine = adapter(kind)
    watched = Watched(mine)
    mine.answer(PROMPTS[:1], {"max_new_tokens": 1})
    alone = watched.logits[-1][0]
    watched.logits.clear()
    mine.answer(PROMPTS[:3], {"max_new_tokens": 1})
    assert any(torch.allclose(each[0], alone, atol=1e-4) for each in watched.logits)


def test_a_config_acts_on_the_layers_without_a_window_and_sees_the_whole_text(
    adapter: LoadAdapter,
) -> None:
    mine = adapter("mixed")
    long = Prompt(context="x" * 40, question="y" * 4)
    mine.configure(config(("sink", {"sink_size": 4}), ("local", {"window_size": 6})))
    (answer,) = mine.answer([long], {"max_new_tokens": 1})
    seen = range(42, 46)  # by each letter of the question, beyond the window of 16 keys
    assert answer.measures["density"] == pytest.approx(sum(10 / keys for keys in seen) / 4)
    assert mine.provenance()["sparse_layers"] == "1 of 2"


def test_a_window_that_is_switched_off_takes_attention_configs(adapter: LoadAdapter) -> None:
    mine = adapter("sliding", sliding_window=None)
    assert mine.check(mine.model, STREAMING) is None
    mine.configure(STREAMING)
    assert mine.answer(PROMPTS, SHORT)[0].measures["density"] < 1


def test_the_types_without_sdpa_are_those_of_transformers() -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES

    newer = {"codegen", "gptj"} if Version(transformers.__version__) >= Version("5.24") else set()
    for kind in sorted(WITHOUT_SDPA - {"doge"} - newer):
        assert not getattr(getattr(transformers, NAMES[kind]), "_supports_sdpa", True), kind
