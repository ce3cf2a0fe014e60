"""Local attention: the last keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_size
from benchfleet.models.attention.view import Size, View, size_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Local(AttentionConfig):
    """Keep the last `window_size` keys up to the query's own, which is one of them."""

    has_fast_form: ClassVar[bool] = True

    window_size: Size

    def __post_init__(self) -> None:
        check_size("window_size", self.window_size)

    def span(self, seen: int) -> tuple[int, int]:
        return 0, size_of(self.window_size, seen)

    def keep(self, view: View) -> Tensor:
        return view.rank > view.seen - view.count(self.window_size)
