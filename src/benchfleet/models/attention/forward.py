"""The attention function that transformers calls in each layer, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

from benchfleet.errors import CellFailure
from benchfleet.models.attention.base import AttentionConfig, View
from benchfleet.models.attention.compose import selected_keys

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK_SCORES = 2**26  # batch × heads × queries × keys that are scored at once


class Tally:
    """Density and attention error by prompt, summed over layers and queries; with one row, of all
    prompts together."""

    def __init__(self, rows: int, device: Any) -> None:
        import torch

        exact = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self._sums = torch.zeros(rows, 3, dtype=exact, device=device)

    def add(self, counted: Tensor, density: Tensor, error: Tensor) -> None:
        """One layer's mean over heads for each query, all [batch, queries], where `counted`."""
        import torch

        values = torch.stack((density, error, torch.ones_like(density)), -1)
        values = values.masked_fill(~counted.unsqueeze(-1), 0.0).to(self._sums)
        self._sums += values.reshape(len(self._sums), -1, 3).sum(1)

    def chosen(self, rows: Sequence[int]) -> Tally:
        """A tally of its own that starts from those rows."""
        twin = Tally(0, self._sums.device)
        twin._sums = self._sums[list(rows)].clone()
        return twin

    def means(self) -> list[tuple[float, float] | None]:
        """Density and attention error of each prompt, or None where nothing was counted."""
        return [(d / n, e / n) if n else None for d, e, n in self._sums.tolist()]

    def clear(self) -> None:
        """Start again."""
        self._sums.zero_()


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


class SparseAttention:
    """Dense attention, or sparse by steps while `counting`.

    Sparse, both are computed: a query of a head that keeps all it sees has the dense output bit
    for bit, and the others' relative L2 distance from it is the attention error.
    """

    def __init__(self, *, block: int = _BLOCK_SCORES) -> None:
        self.steps: tuple[AttentionConfig, ...] = ()
        self.max_length: int | None = None  # tokens; a sliding window of as many never slides
        self._block = block
        self._tally: Tally | None = None
        self._counted: Tensor | None = None

    @contextmanager
    def counting(self, tally: Tally | None, counted: Tensor) -> Iterator[None]:
        """Be sparse for one pass of the model over `counted` queries, bool [batch, queries];
        dense where there is no tally or there are no steps."""
        self._tally, self._counted = tally, counted
        try:
            yield
        finally:
            self._tally = self._counted = None

    @contextmanager
    def counting_all(self, tally: Tally) -> Iterator[None]:
        """Be sparse in every pass, the caller's too; each query that sees some key is counted."""
        self._tally = tally
        try:
            yield
        finally:
            self._tally = None

    def __call__(
        self,
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """Called by each layer: query [batch, heads, queries, dim], key and value [batch, key
        heads, keys, dim], the mask bool or None for plain causality; [batch, queries, heads, dim]
        comes back."""
        import torch
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        dense = dense_attention(module, query, key, value, attention_mask, **kwargs)
        tally = self._tally
        if tally is None or not self.steps or self._slides(module, kwargs):
            return dense, None
        batch, heads, queries, dim = query.shape
        visible = _visible(attention_mask, query, key)
        scaling = kwargs.get("scaling") or dim**-0.5
        counted = visible.any(-1).any(1) if self._counted is None else self._counted
        counted = counted.to(query.device)
        result = torch.empty_like(dense)
        rows = max(1, self._block // (batch * heads * key.shape[2]))
        for start in range(0, queries, rows):
            part = slice(start, start + rows)
            seen = visible[:, :, part]
            view = View(
                query=query[:, :, part],
                key=key,
                visible=seen,
                selected=torch.zeros_like(seen),
                scaling=scaling,
            )
            selected = selected_keys(self.steps, view)
            sparse, _ = sdpa_attention_forward(module, view.query, key, value, selected, **kwargs)
            same = (selected == seen).all(-1).expand(batch, heads, -1).transpose(1, 2)
            result[:, part] = torch.where(same.unsqueeze(-1), dense[:, part], sparse)
            tally.add(
                counted[:, part],
                (selected.sum(-1) / seen.sum(-1).clamp(min=1)).mean(1),
                _distance(result[:, part], dense[:, part]).mean(-1),
            )
        return result, None

    def _slides(self, module: Any, kwargs: Mapping[str, Any]) -> bool:
        """Whether the layer has a sliding window. Such a layer stays as it was trained: it does not
        hold the first keys of the text, and is sparse already."""
        window = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
        return window is not None and window < (self.max_length or inf)


def _visible(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
    """What each query sees, as a mask: without one, all keys up to the query's own."""
    import torch

    batch, _, queries, _ = query.shape
    keys = key.shape[2]
    if mask is not None and mask.dtype != torch.bool:
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message="this model adds numbers to its attention scores, which attention configs"
            " cannot do; leave the config out for this model",
        )
    if mask is not None:
        return mask
    every = torch.ones(queries, keys, dtype=torch.bool, device=query.device)
    return every.tril(keys - queries).expand(batch, 1, queries, keys)


def _distance(result: Tensor, dense: Tensor) -> Tensor:
    """The relative L2 distance of two attention outputs: [batch, queries, heads]."""
    off = (result.float() - dense.float()).norm(dim=-1)
    return off / dense.float().norm(dim=-1).clamp(min=1e-12)


def register(name: str, attention: SparseAttention) -> None:
    """Make it an attention implementation of transformers."""
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(name, attention)
    # Without a mask of its own the model would hand over none: causality and padding lost.
    AttentionMaskInterface.register(name, sdpa_mask)
