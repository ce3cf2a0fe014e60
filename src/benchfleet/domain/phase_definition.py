"""Phases and runners as Python files of git-based campaigns define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

_NAMES = ("name", "token", "label", "id", "__name__")  # attributes that an object is known by


@dataclass(frozen=True)
class PhaseDefinition:
    """levels × models × configs, each run `reruns` times.

    Each of them is text, a member of an enum, or an object that has a name.
    """

    phase: str
    configs: Sequence[Any]
    levels: Sequence[Any]
    models: Sequence[Any]
    reruns: int = 1
    gate: str = ""  # what must hold before phases that require this one
    requires: Sequence[str] = ()  # phases


@dataclass(frozen=True)
class RunnerConfig:
    """What a host may run: one phase, or all, and some models, or all."""

    phase: str = ""
    allowed_models: Sequence[Any] = ()


def name_of(value: Any) -> str:
    """How something is called: text by itself, an enum's member by its value, or else by its own
    name, anything else by the name that it has. Raises ValueError where it has none."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if isinstance(value, Enum):
        try:
            return name_of(value.value)
        except ValueError:
            return value.name
    for attribute in _NAMES:
        name = getattr(value, attribute, None)
        if isinstance(name, str) and name:
            return name
    raise ValueError(
        f"{value!r:.60} has no name; write text, an enum's member, or an object with one"
    )
