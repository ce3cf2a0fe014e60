"""Random numbers by hashing integers: the same on every device, in any batch and any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# The constants of SplitMix64 (Steele, Lea and Flood, 2014), as signed numbers; int64 wraps around.
_STEP, _FIRST, _SECOND = (
    number - 2**64 for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def uniform(*keys: int | Tensor) -> Tensor:
    """Numbers in [0, 1), float32: one for each combination of the keys, which are int64 and
    broadcast. The last is a tensor."""
    import torch

    device = keys[-1].device  # type: ignore[union-attr]
    state = torch.zeros((), dtype=torch.int64, device=device)
    for key in keys:
        state = _mixed(state * _STEP + _STEP + key)
    return _shifted(state, 40).float() / 2**24


def _mixed(state: Tensor) -> Tensor:
    state = (state ^ _shifted(state, 30)) * _FIRST
    state = (state ^ _shifted(state, 27)) * _SECOND
    return state ^ _shifted(state, 31)


def _shifted(state: Tensor, bits: int) -> Tensor:
    """Shifted to the right, with zeros coming in."""
    return (state >> bits) & (2 ** (64 - bits) - 1)
