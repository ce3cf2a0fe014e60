"""What a host may run of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .cell import Cell
from .name_patterns import matches

ANY_HOST = "*"  # the host that stands for all that are not named


@dataclass(frozen=True, kw_only=True)
class HostFilter:
    """Phases and models by name or glob; none of either means all."""

    phases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def takes(self, cell: Cell) -> bool:
        return matches(self.phases, cell.phase) and matches(self.models, cell.model.name)

    def __str__(self) -> str:
        parts = [f"{key} {', '.join(names)}" for key, names in vars(self).items() if names]
        return " and ".join(parts) or "everything"


def filter_for_host(host: str, runners: Mapping[str, HostFilter]) -> HostFilter:
    """What the host may run: by its own name, else as any host, else everything."""
    return runners.get(host) or runners.get(ANY_HOST) or HostFilter()
