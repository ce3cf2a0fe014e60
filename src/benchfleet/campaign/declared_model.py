"""A model as a campaign file declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchfleet.domain.cell import Model
from benchfleet.domain.limits import Limits
from benchfleet.domain.matrix import ModelEntry
from benchfleet.models.base import Adapter

from .entry import Entry
from .series import CheckpointSeries


@dataclass(frozen=True, kw_only=True)
class DeclaredModel:
    """A model as the file names it, and what it is where nothing is wrong with it."""

    name: str
    entry: Entry
    generation: Mapping[str, Any]  # its own, over the defaults
    model: ModelEntry | None
    opened: Model | None = None  # what the adapter is to open, also where its entry is wrong
    adapter: type[Adapter] | None = None
    variants: tuple[DeclaredModel, ...] = ()
    series: CheckpointSeries | None = None  # that it is one of

    def as_variant(self, generation: Mapping[str, Any], limits: Limits | None) -> DeclaredModel:
        """It with these settings of the model that it stands in for, where it has none itself."""
        model = self.model and replace(self.model, limits=self.model.limits or limits)
        return replace(self, model=model, generation={**generation, **self.generation})
