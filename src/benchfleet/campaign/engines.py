"""The engines that a campaign or an inventory chooses: names of plugins, with their settings."""

from __future__ import annotations

from benchfleet.domain.engine_choice import EngineChoice

from .entry import Entry
from .plugins import plugin as opened_plugin
from .schema_types import MAPPING, NAME, Shape, either, named, nullable, plugin

ENGINE: Shape = either(plugin("engines"), named(nullable(MAPPING), plugin("engines"), single=True))
ENGINES: Shape = named(ENGINE, NAME)


def read_engine(entry: Entry, name: str = "") -> EngineChoice | None:
    """The engine that is chosen, as its name or as ``{NAME: {SETTING: VALUE}}``; None where there
    is none, or a mistake."""
    if isinstance(entry.value, dict):
        pairs = entry.pairs("an engine's name, such as ray")
        if len(pairs) != 1:
            entry.wrong("must name one engine, such as {ray: {address: …}}")
            return None
        ((engine, settings),) = pairs
    else:
        engine, settings = entry.text(), entry.like(None)
    # Who only reads results needs none of its packages; a run looks for them.
    chosen = opened_plugin("engines", engine, entry, runs_here=False) if engine else None
    if chosen is None:
        return None
    values = settings.kwargs()
    if problem := chosen.settings_problem(values):
        settings.wrong(problem)
    return EngineChoice(engine=engine, name=name, settings=values)


def read_engines(entry: Entry) -> tuple[EngineChoice, ...]:
    """The engines of an inventory, each under the name that it has there."""
    pairs = entry.pairs("the engines by name, such as {cluster: {ray: {address: …}}}")
    engines = [read_engine(one, name) for name, one in pairs]
    return tuple(one for one in engines if one is not None)
