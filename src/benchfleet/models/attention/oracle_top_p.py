"""The oracle of a share of the attention: the fewest keys that hold it (arXiv 2502.02770)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchfleet.models.attention.base import AttentionConfig, check_choice, check_fraction
from benchfleet.models.attention.selection import best_first
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class OracleTopP(AttentionConfig):
    """Keep, for each query and head, the fewest best keys until the kept ones hold `top_p` of the
    softmax over all visible keys; with ``of: rest``, of the softmax over the keys not kept yet.

    It scores every key, and so saves nothing.
    """

    top_p: float
    of: str = "all"

    def __post_init__(self) -> None:
        check_fraction("top_p", self.top_p)
        check_choice("of", self.of, "all", "rest")

    def keep(self, view: View) -> Tensor:
        import torch

        scores = view.scores()
        total = view.visible if self.of == "all" else view.open
        p = scores.masked_fill(~total, float("-inf")).softmax(-1).nan_to_num()
        mass: Any = 0.0
        if self.of == "all":
            mass = p.masked_fill(~view.selected, 0.0).sum(-1, keepdim=True)
        index = best_first(p.masked_fill(~view.open, -1.0), p.shape[-1])
        ordered = p.masked_fill(~view.open, 0.0).gather(-1, index)
        before = mass + ordered.cumsum(-1) - ordered  # the mass that is held without this key
        enough = before >= self.top_p - 1e-6  # rounding in float32 adds no key
        return torch.zeros_like(p, dtype=torch.bool).scatter_(-1, index, ~enough)
