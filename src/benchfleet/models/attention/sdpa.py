"""Scaled dot-product attention: dense as transformers has it, and over kept keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from benchfleet.models.attention.compose import KeptKeys


def dense_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> Tensor:
    """Attention to all keys that the mask shows, as transformers' ``sdpa`` has it: [batch, queries,
    heads, dim].

    On a CPU, ``sdpa`` is slow where several heads share a key head and there is no mask. A single
    query then runs with these heads folded into the query axis, which is exact.
    """
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    batch, heads, queries, dim = query.shape
    grouped = key.shape[1] < heads
    plain = mask is None and not {"softcap", "position_bias"} & kwargs.keys()
    if not (plain and grouped and queries == 1 and query.device.type == "cpu"):
        output: Tensor = sdpa_attention_forward(module, query, key, value, mask, **kwargs)[0]
        return output
    folded = query.reshape(batch, key.shape[1], -1, dim)
    output = scaled_dot_product_attention(folded, key, value, scale=kwargs.get("scaling"))
    return output.reshape(batch, 1, heads, -1)


def kept_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, kept_keys: KeptKeys, **kwargs: Any
) -> Tensor:
    """Attention to the kept keys, with the logarithm of each weight added to its score: [batch,
    queries, heads, dim]."""
    mask = (
        kept_keys.selected if kept_keys.weight is None else kept_keys.weight.log().to(query.dtype)
    )
    return dense_attention(module, query, key, value, mask, **kwargs)
