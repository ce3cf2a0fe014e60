"""The hub's `request_kwargs`, none of which a call takes, and what replaces each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REMEDIES = {
    "max_requests": "give each benchmark a limit instead: "
    "BenchmarkConfig(name, subsets, {{'limit': {value!r:.20}}})",
    "max_context_length": "leave it out: a context is asked whole, and one that is too long for "
    "the model loses its middle",
}


def request_problems(kwargs: Any) -> dict[str, str]:
    """What to do about each, by its name; by ``""`` about what is no mapping."""
    if kwargs is None:
        return {}
    if not isinstance(kwargs, Mapping):
        return {"": f"must be left out, not {kwargs!r:.60}"}
    unknown = "no request setting is known here; leave it out"
    return {
        str(name): _REMEDIES.get(name, unknown).format(value=value)
        for name, value in kwargs.items()
    }
