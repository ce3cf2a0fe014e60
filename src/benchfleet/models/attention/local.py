"""Local attention: the last keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchfleet.models.attention.base import AttentionConfig, Size, View, check_size

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Local(AttentionConfig):
    """Keep the last `window_size` keys up to the query's own, which is one of them."""

    window_size: Size

    def __post_init__(self) -> None:
        check_size("window_size", self.window_size)

    def keep(self, view: View) -> Tensor:
        return view.rank > view.seen - view.count(self.window_size)
