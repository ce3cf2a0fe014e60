"""An engine that a campaign, an inventory or the command line chooses for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """One engine of a run, by its name in the registry, with its settings."""

    engine: str  # the plugin's name, such as ``ray``
    name: str = ""  # what an inventory calls it; "" for the plugin's name
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How options and messages call it."""
        return self.name or self.engine
