"""The attention function that transformers calls in each layer, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

from benchfleet.errors import CellFailure
from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.compose import kept_keys
from benchfleet.models.attention.fast import decoded
from benchfleet.models.attention.sdpa import dense_attention, kept_attention
from benchfleet.models.attention.state import Shape, State
from benchfleet.models.attention.tally import Tally
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK_SCORES = 2**26  # batch × heads × queries × keys that are scored at once

_NUMBERS = count()


class SparseAttention:
    """Dense attention, or sparse by steps while `counting`.

    In mode ``measure`` both are computed: a query of a head that keeps all it sees has the dense
    output bit for bit, and the others' relative L2 distance from it is the attention error. In mode
    ``fast`` nothing dense is computed, and there is no error to report.
    """

    def __init__(self, *, block: int = _BLOCK_SCORES) -> None:
        self.steps: tuple[AttentionConfig, ...] = ()
        self.fast = False
        self.layers = 1  # of the model
        self.max_length: int | None = None  # tokens; a sliding window of as many never slides
        self._block = block
        self._tally: Tally | None = None
        self._counted: Tensor | None = None
        self._samples: Tensor | None = None
        self._cache: Any = None

    @contextmanager
    def counting(
        self,
        tally: Tally | None,
        counted: Tensor,
        *,
        cache: Any = None,
        samples: Tensor | None = None,
    ) -> Iterator[None]:
        """Be sparse for one pass of the model over `counted` queries, bool [batch, queries];
        dense where there is no tally or there are no steps. Steps keep their states in the layers
        of `cache`; `samples`, int64 [batch], has a number for each row's prompt."""
        self._tally, self._counted, self._cache, self._samples = tally, counted, cache, samples
        try:
            yield
        finally:
            self._tally = self._counted = self._cache = self._samples = None

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

        call = (module, query, key, value, attention_mask)
        acts = bool(self.steps) and not self._slides(module, kwargs)
        if not acts or (self._tally is None and self._cache is None):
            return dense_attention(*call, **kwargs), None
        layer = int(getattr(module, "layer_idx", 0) or 0)
        visible = _visible(attention_mask, query, key)
        states = self._states(layer, query, key, visible)
        if (tally := self._tally) is None:
            return dense_attention(*call, **kwargs), None
        counted = visible.any(-1).any(1) if self._counted is None else self._counted
        counted = counted.to(query.device)
        if self._is_dense(layer, query.shape[2]):
            ones = torch.ones_like(counted, dtype=torch.float32)
            tally.add(counted, ones, torch.zeros_like(ones))
            return dense_attention(*call, **kwargs), None
        view = View(
            query=query,
            key=key,
            value=value,
            visible=visible,
            selected=torch.zeros_like(visible),
            scaling=kwargs.get("scaling") or query.shape[-1] ** -0.5,
            softcap=kwargs.get("softcap"),
            layer=layer,
            layers=self.layers,
            samples=self._samples,
            padded=attention_mask is not None,
        )
        if self.fast and query.shape[2] == 1 and attention_mask is None:
            output, density = decoded(self.steps, view, states)
            tally.add(counted, density, torch.zeros_like(density))
            return output, None
        dense = None if self.fast else dense_attention(*call, **kwargs)
        return self._blocks(module, view, states, dense, counted, tally, kwargs), None

    def _blocks(
        self,
        module: Any,
        view: View,
        states: Mapping[int, State],
        dense: Tensor | None,
        counted: Tensor,
        tally: Tally,
        kwargs: Mapping[str, Any],
    ) -> Tensor:
        """The sparse attention of all queries, so many at once that their scores fit into memory;
        with the dense output, the error is measured against it."""
        import torch

        batch, heads, queries, _ = view.query.shape
        result = view.query.new_empty(batch, queries, heads, view.value.shape[-1])
        rows = max(1, self._block // (batch * heads * view.key.shape[2]))
        for start in range(0, queries, rows):
            part = slice(start, start + rows)
            seen = view.visible[:, :, part]
            query = view.query[:, :, part]
            some = replace(view, query=query, visible=seen, selected=view.selected[:, :, part])
            choice = kept_keys(self.steps, some, states)
            result[:, part] = kept_attention(module, query, view.key, view.value, choice, **kwargs)
            density = (choice.selected.sum(-1) / seen.sum(-1).clamp(min=1)).mean(1)
            error = torch.zeros_like(density)
            if dense is not None:
                same = (choice.selected == seen).all(-1).expand(batch, heads, -1)
                if choice.weight is not None:
                    same = same & ((choice.weight == 1) | ~seen).all(-1)
                same = same.transpose(1, 2).unsqueeze(-1)
                result[:, part] = torch.where(same, dense[:, part], result[:, part])
                error = _distance(result[:, part], dense[:, part]).mean(-1)
            tally.add(counted[:, part], density, error)
        return result

    def _is_dense(self, layer: int, queries: int) -> bool:
        """Whether a step leaves this layer, or a pass of several queries, dense."""
        return any(
            layer in step.dense_layers or (queries > 1 and step.question == "dense")
            for step in self.steps
        )

    def _states(
        self, layer: int, query: Tensor, key: Tensor, visible: Tensor
    ) -> Mapping[int, State]:
        """The states of the steps, which cover all keys: those of the cache, or new ones that are
        fitted to these keys."""
        states = {} if self._cache is None else self._cache.layers[layer].states
        shape = Shape(
            layer=layer,
            heads=query.shape[1],
            key_heads=key.shape[1],
            dim=key.shape[-1],
            device=key.device,
        )
        valid = visible[:, 0, -1]
        for number, step in enumerate(self.steps):
            if number not in states:
                if (state := step.new_state(shape)) is None:
                    continue
                state.fit(key, valid)
                states[number] = state
            states[number].update(key, valid)
        return states

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


def register(attention: SparseAttention, *, own: str) -> str:
    """Make it an attention implementation of transformers, for a model that was loaded with the
    implementation `own`; its name.

    transformers keeps what is registered for ever, so each has a name of its own. It refuses a name
    with "sdpa" in it for models that cannot take that kernel.
    """
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    name = f"benchfleet_{'capped' if own == 'eager' else 'sdpa'}_{next(_NUMBERS)}"
    AttentionInterface.register(name, attention)
    # Without a mask of its own the model would hand over none: causality and padding lost.
    AttentionMaskInterface.register(name, sdpa_mask)
    return name
