"""The oracle: the keys that matter most to each query, found by scoring all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, Size, View, check_size
from benchfleet.models.attention.selection import best_keys

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class OracleTopK(AttentionConfig):
    """Keep, for each query and head, the `heavy_size` best-scored keys not kept yet.

    It shows what a perfect index could reach and saves nothing, since it scores every key.
    """

    version: ClassVar[int] = 2  # 2: of equal scores the later key is kept

    heavy_size: Size

    def __post_init__(self) -> None:
        check_size("heavy_size", self.heavy_size)

    def keep(self, view: View) -> Tensor:
        batch, heads, queries, dim = view.query.shape
        key = view.key.float()
        # Heads that share a key head are folded into its queries: no key is copied.
        folded = view.query.float().reshape(batch, key.shape[1], -1, dim)
        scores = (folded @ key.transpose(-1, -2)).view(batch, heads, queries, -1) * view.scaling
        return best_keys(
            scores,
            view.visible & ~view.selected,
            view.count(self.heavy_size),
            view.most(self.heavy_size),
        )
