"""A key-value cache that grows in place.

The cache of transformers copies all keys and values for each new token. Here a layer keeps room for
tokens to come, and a new token is written behind the others. What `crop` removes is overwritten by
the next token; a cache whose rows were chosen or repeated gets new room with its next token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

if TYPE_CHECKING:
    from torch import Tensor

_ROOM = 256  # tokens: a copy so seldom costs less than one hundredth of reading the keys


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """The keys and values of one layer: [batch, key heads, tokens, dim], views of a larger room."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: Tensor
        self.values: Tensor
        self._key_room: Tensor | None = None
        self._value_room: Tensor | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new keys and values; all of them come back."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        self.keys, self._key_room = _written(self.keys, self._key_room, length, key_states)
        self.values, self._value_room = _written(
            self.values, self._value_room, length, value_states
        )
        return self.keys, self.values


def growing_cache(config: Any) -> DynamicCache:
    """An empty cache for a model of that config. Layers of other kinds, such as sliding windows,
    are those of transformers."""
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() if type(each) is DynamicLayer else each for each in cache.layers]
    if getattr(cache, "layer_class_to_replicate", None) is DynamicLayer:
        cache.layer_class_to_replicate = GrowingLayer
    return cache


def _written(
    stored: Tensor, room: Tensor | None, length: int, new: Tensor
) -> tuple[Tensor, Tensor]:
    """The first `length` stored tokens and the new ones behind them, and the room they lie in."""
    end = length + new.shape[-2]
    if room is None or not _lies_in(stored, room, length) or end > room.shape[-2]:
        larger = new.new_empty(*new.shape[:-2], end + _ROOM, new.shape[-1])
        if length:
            larger[..., :length, :] = stored
        room = larger
    room[..., length:end, :] = new
    return room[..., :end, :], room


def _lies_in(stored: Tensor, room: Tensor, length: int) -> bool:
    return bool(length) and stored.data_ptr() == room.data_ptr() and len(stored) == len(room)
