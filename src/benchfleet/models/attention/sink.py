"""Attention sinks: the first keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_size
from benchfleet.models.attention.view import Size, View, size_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Sink(AttentionConfig):
    """Keep the first `sink_size` keys of the text (arXiv 2309.17453)."""

    has_fast_form: ClassVar[bool] = True

    sink_size: Size

    def __post_init__(self) -> None:
        check_size("sink_size", self.sink_size)

    def span(self, seen: int) -> tuple[int, int]:
        return size_of(self.sink_size, seen), 0

    def keep(self, view: View) -> Tensor:
        return view.rank <= view.count(self.sink_size)
