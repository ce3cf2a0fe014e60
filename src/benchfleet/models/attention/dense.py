"""Dense attention: every key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchfleet.models.attention.base import AttentionConfig
from benchfleet.models.attention.view import View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Dense(AttentionConfig):
    """Keep all that is visible; stands alone, since there is nothing to add to it."""

    def keep(self, view: View) -> Tensor:
        return view.visible
