"""Sinks and a window together, under the two names that the field has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from benchfleet.models.attention.base import AttentionConfig, check_size
from benchfleet.models.attention.view import Size, View, size_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SinkLocal(AttentionConfig):
    """Keep the first `sink_size` keys and the last `window_size` up to the query's own."""

    has_fast_form: ClassVar[bool] = True

    window_size: Size
    sink_size: Size = 4  # what arXiv 2309.17453 found to be enough

    def __post_init__(self) -> None:
        check_size("window_size", self.window_size)
        check_size("sink_size", self.sink_size)

    def span(self, seen: int) -> tuple[int, int]:
        return size_of(self.sink_size, seen), size_of(self.window_size, seen)

    def keep(self, view: View) -> Tensor:
        first = view.rank <= view.count(self.sink_size)
        return first | (view.rank > view.seen - view.count(self.window_size))


@dataclass(frozen=True, kw_only=True)
class Streaming(SinkLocal):
    """StreamingLLM's pattern (arXiv 2309.17453), without its renumbering of positions."""
