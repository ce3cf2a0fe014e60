"""Keys and values in few bits: each vector rounded between its least and its greatest number.

A vector is rounded by itself, so neither its neighbours nor what is cropped changes it. It is read
back in full for each token, so such a cache saves memory and no time. Groups of numbers with a
range of their own are from arXiv 2303.06865.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from benchfleet.models.cache import GrowingLayer

if TYPE_CHECKING:
    from torch import Tensor

_RANGE_BYTES = 8  # two float32 behind each vector: its least number, and the step between levels


class QuantizedLayer(GrowingLayer):
    """The keys and values of one layer as bytes: uint8 [batch, key heads, tokens, bytes]."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self._bits = bits

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add new keys and values; all of them come back, rounded."""
        keys, values = super().update(
            packed(key_states, self._bits), packed(value_states, self._bits)
        )
        return (
            unpacked(keys, self._bits).to(key_states.dtype),
            unpacked(values, self._bits).to(value_states.dtype),
        )


def packed(vectors: Tensor, bits: int) -> Tensor:
    """Vectors along the last dimension as bytes, at 8 or 4 bits a number. Raises ValueError."""
    if bits == 4 and vectors.shape[-1] % 2:
        raise ValueError(f"heads of {vectors.shape[-1]} channels take no kv_cache: int4; use int8")
    vectors = vectors.float()
    least = vectors.amin(-1, keepdim=True)
    step = (vectors.amax(-1, keepdim=True) - least).clamp(min=1e-8) / (2**bits - 1)
    codes = ((vectors - least) / step).round().to(torch.uint8)
    if bits == 4:
        codes = codes[..., ::2] | codes[..., 1::2] << 4
    return torch.cat((codes, torch.cat((least, step), -1).view(torch.uint8)), -1)


def unpacked(stored: Tensor, bits: int) -> Tensor:
    """The rounded vectors of such bytes: float32."""
    codes = stored[..., :-_RANGE_BYTES]
    if bits == 4:
        codes = torch.stack((codes & 15, codes >> 4), -1).flatten(-2)
    ends = stored[..., -_RANGE_BYTES:].contiguous().view(torch.float32)
    return codes * ends[..., 1:] + ends[..., :1]
