"""The oracle: the keys that matter most to each query, found by scoring all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchfleet.models.attention.base import AttentionConfig, Size, View, check_size

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class OracleTopK(AttentionConfig):
    """Keep, for each query and head, the `heavy_size` best-scored keys not kept yet.

    It shows what a perfect index could reach and saves nothing, since it scores every key.
    """

    heavy_size: Size

    def __post_init__(self) -> None:
        check_size("heavy_size", self.heavy_size)

    def keep(self, view: View) -> Tensor:
        import torch

        batch, heads, queries, dim = view.query.shape
        key = view.key.float()
        # Heads that share a key head are folded into its queries: no key is copied.
        folded = view.query.float().reshape(batch, key.shape[1], -1, dim)
        scores = (folded @ key.transpose(-1, -2)).view(batch, heads, queries, -1) * view.scaling
        open_to_choice = view.visible & ~view.selected
        scores = scores.masked_fill(~open_to_choice, float("-inf"))
        most = view.most(self.heavy_size)
        best = scores.topk(most, dim=-1).indices
        within_budget = torch.arange(most, device=best.device) < view.count(self.heavy_size)
        chosen = torch.zeros_like(scores, dtype=torch.bool)
        return chosen.scatter_(-1, best, within_budget.expand_as(best)) & open_to_choice
