"""The servers of served models: which models they answer for, and how far their cells are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchfleet.dashboard.model import ReadModel

MAX_NAMED_MODELS = 8


@dataclass(slots=True)
class ServedModels:
    """A server, or an engine that slots start as one, with the cells that ask it."""

    server: str
    models: list[str] = field(default_factory=list)
    more_models: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    waiting: int = 0


def served_models(model: ReadModel) -> Sequence[ServedModels]:
    """The servers by name; the lock of the model is held."""
    by_server: dict[str, ServedModels] = {}
    for tile in model.tiles.values():
        if not tile.rows or not (server := tile.rows[0].server):
            continue
        one = by_server.setdefault(server, ServedModels(server))
        if tile.model not in one.models:
            one.models.append(tile.model)
        one.running += tile.states.get("running", 0)
        one.done += tile.states.get("success", 0)
        one.failed += tile.states.get("failed", 0) + tile.states.get("partial", 0)
        one.waiting += tile.states.get("pending", 0) + tile.states.get("retrying", 0)
    for one in by_server.values():
        one.more_models = max(0, len(one.models) - MAX_NAMED_MODELS)
        del one.models[MAX_NAMED_MODELS:]
    return [by_server[server] for server in sorted(by_server)]
