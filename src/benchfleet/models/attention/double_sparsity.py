"""Double Sparsity: keys ranked by a few channels of theirs (arXiv 2408.07092)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import (
    AttentionConfig,
    check_choice,
    check_common,
    check_number,
)
from benchfleet.models.attention.selection import (
    Picks,
    best_picks,
    grouped_product,
    quantized,
    shared_scores,
)
from benchfleet.models.attention.state import KeyState, Shape, State
from benchfleet.models.attention.view import Size, View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DoubleSparsity(AttentionConfig):
    """Keep the `heavy_size` keys with the best product of labels: dim / `group_factor` channels of
    query and key, rounded to 2^`label_bits` levels.

    `sorted_channel_file` is JSON: ``model.layers.N.self_attn.<channel_selection>`` names a list of
    channels for each head or key head, best first. ``share: group`` chooses once for all heads of
    a key head, by the greatest score.
    """

    has_fast_form: ClassVar[bool] = True

    heavy_size: Size
    sorted_channel_file: str
    group_factor: int = 16
    label_bits: int = 4
    channel_selection: str = "qk_proj"
    share: str = "head"
    question: str = "sparse"
    dense_layers: tuple[int, ...] = (0, 1)

    def __post_init__(self) -> None:
        check_common(self)
        check_number("group_factor", self.group_factor, 1)
        check_choice("channel_selection", self.channel_selection, "qk_proj", "q_proj", "k_proj")

    def files(self) -> Mapping[str, Path]:
        return {"sorted_channel_file": Path(self.sorted_channel_file)}

    def new_state(self, shape: Shape) -> State:
        return Labels(self._channels(shape), shape.heads, self.label_bits)

    def keep(self, view: View) -> Picks:
        labels: Labels = view.state
        scores = grouped_product(labels.of_query(view.query), labels.vectors)
        if self.share == "group":
            scores = shared_scores(scores, view.key.shape[1])
        return best_picks(
            scores, view.open, view.count(self.heavy_size), view.most(self.heavy_size)
        )

    @cached_property
    def _lists(self) -> dict[str, list[list[int]]]:
        lists: dict[str, list[list[int]]] = json.loads(
            Path(self.sorted_channel_file).read_text(encoding="utf-8")
        )
        return lists

    def _channels(self, shape: Shape) -> Tensor:
        """The channels of each head or key head of a layer: [heads or key heads, channels]."""
        import torch

        name = f"model.layers.{shape.layer}.self_attn.{self.channel_selection}"
        lists = self._lists.get(name)
        if lists is None:
            raise ValueError(f"{self.sorted_channel_file} has no {name}; make it for this model")
        if len(lists) not in (shape.heads, shape.key_heads):
            raise ValueError(
                f"{name} of {self.sorted_channel_file} has {len(lists)} lists, and the model has"
                f" {shape.heads} heads; make the file for this model"
            )
        many = max(1, shape.dim // self.group_factor)
        channels = [channel for each in lists for channel in each[:many]]
        if len(channels) < many * len(lists) or not all(0 <= n < shape.dim for n in channels):
            raise ValueError(
                f"{name} of {self.sorted_channel_file} needs {many} channels from 0 to"
                f" {shape.dim - 1} for each head; make the file for this model"
            )
        return torch.tensor([each[:many] for each in lists], device=shape.device)


class Labels(KeyState):
    """The chosen channels of each key, rounded: [batch, heads or key heads, keys, channels]."""

    def __init__(self, channels: Tensor, heads: int, bits: int) -> None:
        super().__init__()
        self._channels, self._heads, self._bits = channels, heads, bits

    def vector(self, key: Tensor) -> Tensor:
        return self._label(key)

    def of_query(self, query: Tensor) -> Tensor:
        """The same channels of each query: [batch, heads, queries, channels]."""
        return self._label(query)

    def _label(self, vectors: Tensor) -> Tensor:
        channels = self._channels
        heads, lists = vectors.shape[1], len(channels)
        if lists < heads:  # one list for a key head, and these are queries
            channels = channels.repeat_interleave(heads // lists, dim=0)
        elif lists > heads:  # one list for each head, and these are keys
            vectors = vectors.repeat_interleave(lists // heads, dim=1)
        batch, heads, length, _ = vectors.shape
        index = channels[None, :, None, :].expand(batch, heads, length, -1)
        return quantized(vectors.float().gather(-1, index), self._bits)
