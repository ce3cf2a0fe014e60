"""Choosing the best-scored keys of each query."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def best_keys(scores: Tensor, open_to_choice: Tensor, count: Tensor, most: int) -> Tensor:
    """For each query the `count` best-scored keys among those `open_to_choice`; of equal scores the
    later key wins, so that neither padding nor the device changes the choice.

    `scores` and the answer (bool) are [batch, heads, queries, keys]. `open_to_choice` (bool) and
    `count` ([…, 1]) broadcast to them. `most` is a number that no count exceeds.
    """
    import torch

    if not most:
        return torch.zeros_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(~open_to_choice, float("-inf"))
    last = (count - 1).clamp(0, most - 1).expand(*scores.shape[:-1], 1)
    least = scores.topk(most, dim=-1).values.gather(-1, last)
    above = scores > least
    equal = (scores == least) & open_to_choice
    room = count - above.sum(-1, keepdim=True)
    later = equal.flip(-1).cumsum(-1).flip(-1)  # how many equal ones there are from here on
    return (above | (equal & (later <= room))) & (count > 0)
