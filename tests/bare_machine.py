"""The facts of a plain machine, as `benchfleet.machines.facts` prints them."""

from __future__ import annotations

from typing import Any

from benchfleet.machines.facts import Facts
from benchfleet.machines.wheel import environment_name


def facts_of(**given: Any) -> Facts:
    """Its facts; `given` are those that matter to the test."""
    bare: dict[str, Any] = {
        "benchfleet": "1",
        "environment": environment_name(),
        "python": "3.12.1",
        "executable": "",
        "hostname": "",
        "platform": "",
        "cores": 1,
        "memory": 1,
        "disk_free": 1,
        "clock": 1,
    }
    return Facts(**{**bare, **given})
