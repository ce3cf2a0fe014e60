"""What a checkpoint's config says of its attention: refusals before the model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.models.digest import checkpoint_config

# Model types of transformers that have no sdpa attention, which attention configs run on; Doge's
# adds numbers to the scores.
WITHOUT_SDPA = frozenset(
    "big_bird bigbird_pegasus bloom codegen cpmant doge falcon_mamba gpt_neo"  # noqa: SIM905
    " gpt_neox_japanese gpt_oss gptj mamba mamba2 mpt openai-gpt prophetnet reformer rembert"
    " roformer rwkv xglm xlm xlnet xlstm".split()
)
# They cap their scores, which sdpa cannot; their attention here is `capped_attention`.
_SOFTCAPPED = frozenset({"gemma2", "vaultgemma"})
_WINDOW_IN_ALL_LAYERS = frozenset({"mistral", "mixtral", "phi3", "starcoder2"})


def sparse_layers(config: Mapping[str, Any]) -> tuple[int, int]:
    """How many layers attention configs act on, those without a sliding window, of how many; from
    the content of config.json."""
    text = {**config, **(config.get("text_config") or {})}
    layers = int(text.get("num_hidden_layers") or 1)
    window, limit = text.get("sliding_window"), text.get("max_position_embeddings")
    if not window or text.get("use_sliding_window") is False or (limit and window >= limit):
        return layers, layers
    if kinds := text.get("layer_types"):
        return sum(kind != "sliding_attention" for kind in kinds), len(kinds)
    return (0 if text.get("model_type") in _WINDOW_IN_ALL_LAYERS else layers), layers


def takes_our_attention(config: Mapping[str, Any], own: str) -> bool:
    """Whether a model that was loaded with the attention implementation `own` takes ours."""
    return own == "sdpa" or (own == "eager" and config.get("model_type") in _SOFTCAPPED)


def declared_config(model: Model) -> dict[str, Any]:
    """The checkpoint's config.json as the model's kwargs change it; empty where it is not here."""
    stored = checkpoint_config(model.source)
    return {**stored, **{key: value for key, value in model.kwargs.items() if key in stored}}


def refusal(config: Mapping[str, Any], name: str) -> str | None:
    """Why a model of this config.json cannot run the attention config `name`, or None."""
    kind = (config.get("text_config") or config).get("model_type")
    if kind in WITHOUT_SDPA or config.get("model_type") in WITHOUT_SDPA:
        return f"{kind} models do not compute attention by sdpa; leave {name} out for this model"
    if not sparse_layers(config)[0]:
        return (
            f"each layer of this model has a sliding window of {config['sliding_window']} keys, and"
            " attention configs act on the layers without one; add model_kwargs:"
            f" {{sliding_window: null}}, or leave {name} out for this model"
        )
    return None
