"""Plugins as a campaign names them: one that is not to be had is a mistake at its key."""

from __future__ import annotations

from typing import Any

from benchfleet.errors import PluginError
from benchfleet.registry import Family, load

from .entry import Entry


def plugin(family: Family, name: str, entry: Entry) -> Any:
    """The class of that name, or None with the mistake noted at `entry`."""
    try:
        return load(family, name)
    except PluginError as error:
        entry.wrong(str(error))
    except (ImportError, AttributeError) as error:
        entry.wrong(f"the plugin {name!r} cannot be imported: {error}")
    return None
