"""Telling apart cells of equal names, of which a ledger knows several versions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from .axes import Config, Model
from .canonical import content_digest
from .cell import Cell

_Part = TypeVar("_Part", Model, Config)
_Named = dict[Hashable, dict[str, _Part]]  # by name, each version by its content


def mark_versions(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, each version of a model and of a config under a name of its own.

    A campaign's file may give a name to one config, and later to another. Then the ledger has cells
    of both, whose results must not be pooled. The version that comes first keeps the name, and the
    others get a mark: ``window@3d718421``.
    """
    first: dict[tuple[str, str, str], Cell] = {}  # of a model × config × benchmark
    configs: _Named[Config] = {}
    models: _Named[Model] = {}  # by their config too, which may change them
    for cell in cells:
        earlier = first.setdefault((cell.model.name, cell.config.name, cell.label), cell)
        if earlier.config.canonical != cell.config.canonical:
            configs[cell.config.name] = {}
        elif earlier.model.canonical != cell.model.canonical:
            models[cell.model.name, cell.config.name] = {}
    if not (configs or models):
        return [*cells]
    return [
        replace(
            cell,
            config=_marked(cell.config, configs.get(cell.config.name)),
            model=_marked(cell.model, models.get((cell.model.name, cell.config.name))),
        )
        for cell in cells
    ]


def _marked(part: _Part, versions: dict[str, _Part] | None) -> _Part:
    """The version of it, with a mark if it is not the first; itself if it has one version."""
    if versions is None:
        return part
    if part.canonical not in versions:
        mark = f"@{content_digest(part.canonical)[:8]}" if versions else ""
        versions[part.canonical] = replace(part, name=part.name + mark)
    return versions[part.canonical]
