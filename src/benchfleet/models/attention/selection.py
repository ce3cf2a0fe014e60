"""Scoring and choosing keys, with heads that share key heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Picks:
    """Keys chosen by index, which need not be scattered into a mask to be read."""

    index: Tensor  # int64 [batch, key heads or heads, queries, picks]: columns of `View.key`
    valid: Tensor  # bool, broadcast to the same shape: rows may pick different numbers
    weight: Tensor | None = None  # float32, as `valid`: how many keys each pick stands for; they
    # add up where a column repeats. None is 1 each, and no column repeats.

    def spread(self, heads: int, keys: int) -> Tensor:
        """The weight of each key, 0 where it was not picked: float32 [batch, heads, queries,
        keys]."""
        weight = self.valid.float() if self.weight is None else self.weight * self.valid
        weight = weight.expand(self.index.shape)
        spread = weight.new_zeros(*self.index.shape[:-1], keys)
        spread.scatter_add_(-1, self.index, weight)
        return spread.repeat_interleave(heads // spread.shape[1], dim=1)


def grouped_product(query: Tensor, key: Tensor) -> Tensor:
    """query · key: [batch, heads, queries, keys] from [batch, heads, queries, dim] and [batch, key
    heads, keys, dim]. Heads that share a key head are folded into its queries: no key is copied."""
    batch, heads, queries, dim = query.shape
    folded = query.reshape(batch, key.shape[1], heads // key.shape[1] * queries, dim)
    return (folded @ key.transpose(-1, -2)).view(batch, heads, queries, key.shape[2])


def capped(scores: Tensor, softcap: float | None) -> Tensor:
    """The scores within ± `softcap`, by a tanh; the same scores if it is None. Any shape."""
    return scores if softcap is None else softcap * (scores / softcap).tanh()


def shared_scores(scores: Tensor, key_heads: int) -> Tensor:
    """The greatest score of the heads that share a key head: [batch, key heads, queries, keys]."""
    batch, _, queries, keys = scores.shape
    return scores.view(batch, key_heads, -1, queries, keys).amax(2)


def best_first(scores: Tensor, most: int) -> Tensor:
    """The indices of the `most` greatest scores along the last dimension, best first.

    Of equal scores the later comes first, so that neither padding nor the device changes the order.
    """
    import torch

    bits = (scores.float() + 0.0).view(torch.int32)  # + 0.0 makes -0.0 equal 0.0
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() << 32
    ordered += torch.arange(scores.shape[-1], device=scores.device)
    return ordered.topk(most, dim=-1).indices


def best_picks(scores: Tensor, open_to_choice: Tensor, count: Tensor, most: int) -> Picks:
    """For each query the `count` best-scored keys of those that are open to choice.

    `scores` is [batch, heads, queries, keys], where heads may be key heads. `open_to_choice` (bool)
    and `count` ([…, 1]) broadcast to it; no count exceeds `most`.
    """
    import torch

    if open_to_choice.shape[1] > scores.shape[1]:
        open_to_choice = shared_scores(open_to_choice, scores.shape[1])
        count = shared_scores(count, scores.shape[1])
    scores = scores.masked_fill(~open_to_choice, float("-inf"))
    index = best_first(scores, most)
    within_budget = torch.arange(most, device=scores.device) < count
    return Picks(index=index, valid=within_budget & (scores.gather(-1, index) > float("-inf")))


def quantized(vectors: Tensor, bits: int) -> Tensor:
    """Each vector along the last dimension rounded to 2^bits levels between its least and greatest
    number."""
    least = vectors.amin(-1, keepdim=True)
    step = (vectors.amax(-1, keepdim=True) - least).clamp(min=1e-8) / (2**bits - 1)
    return ((vectors - least) / step).round() * step + least
