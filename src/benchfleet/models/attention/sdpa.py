"""Scaled dot-product attention: dense as transformers has it, over kept keys, and with capped
scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchfleet.models.attention.selection import capped, grouped_product

if TYPE_CHECKING:
    from torch import Tensor

    from benchfleet.models.attention.compose import KeptKeys

_BLOCK_SCORES = 2**26  # batch × heads × queries × keys of capped scores


def dense_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> Tensor:
    """Attention to all keys that the mask shows, as transformers' ``sdpa`` has it: [batch, queries,
    heads, dim].

    On a CPU, ``sdpa`` is slow where several heads share a key head and there is no mask. A single
    query then runs with these heads folded into the query axis, which is exact. A model that caps
    its scores takes `capped_attention`, since ``sdpa`` cannot.
    """
    if softcap := kwargs.get("softcap"):
        scaling = kwargs.get("scaling")
        return capped_attention(query, key, value, mask, scaling=scaling, softcap=softcap)
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    batch, heads, queries, dim = query.shape
    grouped = key.shape[1] < heads
    plain = mask is None and kwargs.get("position_bias") is None
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


def capped_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scaling: float | None,
    softcap: float,
) -> Tensor:
    """Attention whose scores are capped at ± `softcap` before the mask is added, as Gemma 2 has it
    (arXiv 2408.00118): [batch, queries, heads, dim]. No more than `_BLOCK_SCORES` are computed at
    once."""
    import torch

    batch, heads, queries, dim = query.shape
    keys, least = key.shape[2], torch.finfo(query.dtype).min
    scaling = dim**-0.5 if scaling is None else scaling
    if mask is None:
        mask = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)
        mask = mask[None, None]
    output = query.new_empty(batch, queries, heads, value.shape[-1])
    rows = max(1, _BLOCK_SCORES // (batch * heads * keys))
    for start in range(0, queries, rows):
        part = slice(start, start + rows)
        scores = capped(grouped_product(query[:, :, part], key) * scaling, softcap)
        part_mask = mask[:, :, part]
        if part_mask.dtype == torch.bool:
            scores = scores.masked_fill(~part_mask, least)
        else:  # a row that keeps no key is padding; it must not become NaN
            scores = (scores + part_mask).clamp(min=least)
        p = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
        output[:, part] = grouped_product(p, value.transpose(-1, -2)).transpose(1, 2)
    return output
