"""A key-value cache that grows in place.

The cache of transformers copies all keys and values for each new token. Here a layer keeps room for
tokens to come, and a new token is written behind the others. What `crop` removes is overwritten by
the next token; a cache whose rows were chosen or repeated gets new room with its next token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from benchfleet.models.room import appended

if TYPE_CHECKING:
    from torch import Tensor

    from benchfleet.models.attention.state import State


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """The keys and values of one layer: [batch, key heads, tokens, dim], views of a larger room."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: Tensor
        self.values: Tensor
        self._key_room: Tensor | None = None
        self._value_room: Tensor | None = None
        self.states: dict[int, State] = {}  # of attention steps, by number; they follow the keys

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new keys and values; all of them come back."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        self.keys, self._key_room = appended(self.keys, self._key_room, length, key_states)
        self.values, self._value_room = appended(
            self.values, self._value_room, length, value_states
        )
        return self.keys, self.values

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        for state in self.states.values():
            state.crop(self.get_seq_length())

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        if self.states:
            rows = torch.arange(len(self.keys) // repeats, device=self.keys.device)
            self._choose(rows.repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self._choose(indices)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)
        self._choose(beam_idx)

    def reset(self) -> None:
        super().reset()
        self.states.clear()

    def _choose(self, rows: Tensor) -> None:
        for state in self.states.values():
            state.rows(rows)


def growing_cache(config: Any, layer: Callable[[], GrowingLayer] = GrowingLayer) -> DynamicCache:
    """An empty cache for a model of that config. Layers of other kinds, such as sliding windows,
    are those of transformers."""
    cache = DynamicCache(config=config)
    cache.layers = [layer() if type(each) is DynamicLayer else each for each in cache.layers]
    if getattr(cache, "layer_class_to_replicate", None) is DynamicLayer:
        cache.layer_class_to_replicate = layer
    return cache
