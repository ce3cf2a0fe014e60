"""What a user may set for a Ray cluster: the settings, their checks, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import benchfleet
from benchfleet.domain import units
from benchfleet.domain.host import Host

SETTINGS: Mapping[str, type] = {
    "address": str,  # of the cluster; "": RAY_ADDRESS, or the cluster that runs here
    "slots_per_gpu": int,
    "cpu_slots": int,  # on each node without a GPU
    "memory": str,  # of the node for each slot; Ray reserves it
    "price": str,  # of an hour of each node, or of each GPU
    "folder": str,  # on each node, for scratch files
    "labels": dict,  # that a node must have to be used
    "pending_nodes": int,  # asked of the cluster's autoscaler at once; 0: it has none
    "runtime_env": dict,  # Ray's own words for what it installs on nodes
    "bootstrap": bool,  # send this benchfleet to the nodes
}
_EXCLUDED = "**/__pycache__/**"


def problem(settings: Mapping[str, Any]) -> str:
    """What is wrong with values of the right type; ``""`` where nothing is."""
    for name in ("slots_per_gpu", "cpu_slots"):
        if settings.get(name, 1) < 1:
            return f"{name} must be 1 or more, not {settings[name]}"
    for name, check in (("price", units.price), ("memory", units.size)):
        try:
            if name in settings:
                check(settings[name])
        except ValueError as error:
            return f"{name} {error}"
    return ""


def like_host(name: str, settings: Mapping[str, Any]) -> Host:
    """What to use of each node, as of a host of an inventory."""
    return Host(
        name=name or "ray",
        cpu_slots=settings.get("cpu_slots"),
        slots_per_gpu=settings.get("slots_per_gpu", 1),
        price=units.price(settings["price"]) if "price" in settings else None,
        folder=settings.get("folder", Host.folder),
    )


def slot_memory(settings: Mapping[str, Any]) -> int:
    """The bytes of a node that each slot reserves; 0 for none."""
    return units.size(settings["memory"]) if "memory" in settings else 0


def runtime_env(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The runtime environment of all that runs on nodes; with `bootstrap`, this benchfleet too."""
    environment = dict(settings.get("runtime_env", {}))
    if settings.get("bootstrap"):
        package = str(Path(benchfleet.__file__).parent)
        environment["py_modules"] = [*environment.get("py_modules", []), package]
        environment["excludes"] = [*environment.get("excludes", []), _EXCLUDED]
    return environment
