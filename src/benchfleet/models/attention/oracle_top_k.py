"""The oracle: the keys that matter most to each query, found by scoring all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_size
from benchfleet.models.attention.selection import Picks, best_picks
from benchfleet.models.attention.view import Size, View


@dataclass(frozen=True, kw_only=True)
class OracleTopK(AttentionConfig):
    """Keep, for each query and head, the `heavy_size` best-scored keys not kept yet.

    It shows what a perfect index could reach and saves nothing, since it scores every key.
    """

    version: ClassVar[int] = 2  # 2: of equal scores the later key is kept
    has_fast_form: ClassVar[bool] = True

    heavy_size: Size

    def __post_init__(self) -> None:
        check_size("heavy_size", self.heavy_size)

    def keep(self, view: View) -> Picks:
        count, most = view.count(self.heavy_size), view.most(self.heavy_size)
        return best_picks(view.scores(), view.open, count, most)
