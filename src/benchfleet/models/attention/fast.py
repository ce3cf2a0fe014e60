"""Sparse decoding that reads the kept keys alone: slices for spans, rows by index for picks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.sdpa import capped_attention
from benchfleet.models.attention.selection import Picks, grouped_product
from benchfleet.models.attention.state import State
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor


def decoded(
    steps: Sequence[AttentionConfig], view: View, states: Mapping[int, State]
) -> tuple[Tensor, Tensor]:
    """The attention of one query in each row, which sees all keys, and its density.

    Steps with spans come first, and one that picks keys may follow. [batch, 1, heads, dim] comes
    back, and the kept share of the keys, [batch, 1].
    """
    import torch

    keys = view.key.shape[2]
    spans = [span for step in steps if (span := step.span(keys)) is not None]
    first = max((span[0] for span in spans), default=0)
    last = max((span[1] for span in spans), default=0)
    if first + last >= keys:
        first, last = 0, keys
    picks = None
    if len(spans) < len(steps) and last < keys:
        selected = torch.zeros_like(view.selected)
        selected[..., :first] = True
        selected[..., keys - last :] = True
        answer = steps[-1].keep(replace(view, selected=selected, state=states.get(len(steps) - 1)))
        picks = _without_spans(cast(Picks, answer), first, keys - last)
        if not first + last:
            picks = _with_own(picks, keys - 1)
    elif not first + last:
        last = 1  # a query for which no step keeps a key keeps its own
    near = torch.cat((view.key[:, :, :first], view.key[:, :, keys - last :]), 2)
    near_value = torch.cat((view.value[:, :, :first], view.value[:, :, keys - last :]), 2)
    kept_count = view.query.new_full((len(view.query), 1), first + last, dtype=torch.float32)
    if picks is None or not picks.index.shape[-1]:
        return _joined(view, near, near_value, None), kept_count / keys
    kept_count += _distinct(picks).float().mean(1)
    index = picks.index[:, :, 0]
    bias = torch.zeros_like(picks.index, dtype=torch.float32)
    bias = (bias if picks.weight is None else picks.weight.log().expand_as(bias)).masked_fill(
        ~picks.valid, float("-inf")
    )
    if index.shape[1] != near.shape[1]:
        return _apart(view, (near, near_value), index, bias), kept_count / keys
    far, far_value = rows_of(view.key, index), rows_of(view.value, index)
    bias = torch.cat((bias.new_zeros(*bias.shape[:-1], near.shape[2]), bias), -1)
    near, near_value = torch.cat((near, far), 2), torch.cat((near_value, far_value), 2)
    return _joined(view, near, near_value, bias.to(near.dtype)), kept_count / keys


def rows_of(tensor: Tensor, index: Tensor) -> Tensor:
    """The rows `index` ([batch, heads, many]) of a layer's keys or values ([batch, key heads, keys,
    dim]), copied as rows: [batch, heads, many, dim]."""
    from torch.nn.functional import embedding

    table, rows = _as_table(tensor, index)
    return embedding(rows, table)


def sum_of_rows(tensor: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum of such rows, without a copy of them: [batch, heads, dim]."""
    from torch.nn.functional import embedding_bag

    table, rows = _as_table(tensor, index)
    bags = rows.flatten(0, 1)
    total = embedding_bag(bags, table, per_sample_weights=weight.view_as(bags), mode="sum")
    return total.view(*index.shape[:2], -1)


def _as_table(tensor: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Keys or values as a table of rows, [rows, dim], and the numbers of the rows `index` in it."""
    import torch

    batch, key_heads, keys, dim = tensor.shape
    by_row, by_head, by_key, by_channel = tensor.stride()
    if (by_key, by_channel) != (dim, 1) or by_row % dim or by_head % dim:
        return _as_table(tensor.contiguous(), index)
    by_row, by_head = by_row // dim, by_head // dim
    many = (batch - 1) * by_row + (key_heads - 1) * by_head + keys
    table = tensor.as_strided((many, dim), (dim, 1))
    heads = torch.arange(index.shape[1], device=index.device) * key_heads // index.shape[1]
    start = torch.arange(batch, device=index.device)[:, None] * by_row + heads * by_head
    return table, index + start.unsqueeze(-1)


def _without_spans(picks: Picks, start: int, end: int) -> Picks:
    """The picks between the spans."""
    between = (picks.index >= start) & (picks.index < end)
    return replace(picks, valid=picks.valid & between)


def _with_own(picks: Picks, own: int) -> Picks:
    """The picks, and a query's own key where nothing is picked."""
    import torch

    valid = picks.valid.expand(picks.index.shape)
    alone = ~valid.any(-1, keepdim=True)
    index = torch.cat((picks.index, torch.full_like(alone, own, dtype=torch.long)), -1)
    weight = picks.weight
    if weight is not None:
        weight = weight.expand(picks.index.shape)
        weight = torch.cat((weight, torch.ones_like(alone, dtype=weight.dtype)), -1)
    return Picks(index=index, valid=torch.cat((valid, alone), -1), weight=weight)


def _distinct(picks: Picks) -> Tensor:
    """How many keys are picked: [batch, heads or key heads, queries]."""
    valid = picks.valid.expand(picks.index.shape)
    if picks.weight is None:
        return valid.sum(-1)
    ordered = picks.index.masked_fill(~valid, -1).sort(-1).values
    return (ordered[..., 1:] != ordered[..., :-1]).sum(-1) + (ordered[..., 0] >= 0)


def _joined(view: View, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention to the same keys for all heads of a key head."""
    from torch.nn.functional import scaled_dot_product_attention

    batch, heads, _, dim = view.query.shape
    folded = view.query.reshape(batch, key.shape[1], -1, dim)
    if view.softcap is not None:
        mask = folded.new_zeros(1, 1, 1, key.shape[2]) if bias is None else bias
        mask = mask.expand(*mask.shape[:2], folded.shape[2], -1)
        output = capped_attention(
            folded, key, value, mask, scaling=view.scaling, softcap=view.softcap
        )
        return output.transpose(1, 2).reshape(batch, 1, heads, -1)
    output = scaled_dot_product_attention(folded, key, value, attn_mask=bias, scale=view.scaling)
    return output.reshape(batch, 1, heads, -1)


def _apart(view: View, near: tuple[Tensor, Tensor], far: Tensor, bias: Tensor) -> Tensor:
    """Attention to keys near, the same for all heads of a key head, and far, by index for each
    head."""
    import torch

    query = view.query
    near_scores = view.score_of(grouped_product(query, near[0]).float())
    far_scores = view.score_of((query @ rows_of(view.key, far).transpose(-1, -2)).float()) + bias
    p = torch.cat((near_scores, far_scores), -1).softmax(-1).to(query.dtype)
    split = near_scores.shape[-1]
    output = sum_of_rows(view.value, far, p[:, :, 0, split:].contiguous()).unsqueeze(2)
    output += grouped_product(p[..., :split], near[1].transpose(-1, -2))
    return output.transpose(1, 2)
