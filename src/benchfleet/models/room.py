"""Tensors that grow along their tokens without a copy of what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_ROOM = 256  # tokens: a copy so seldom costs less than one hundredth of reading the keys


def appended(
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
