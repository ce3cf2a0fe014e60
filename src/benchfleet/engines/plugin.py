"""How a run opens an engine that the user chose by its name: the base class of such engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from benchfleet import registry
from benchfleet.domain.host import Host
from benchfleet.domain.resource import GpuChecks
from benchfleet.engines.base import Engine, HostReady, Post
from benchfleet.hints import hint

Examine = Callable[[Host, str], HostReady]  # raises BenchfleetError if it cannot be used


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What a run sets for each of its engines."""

    name: str = ""  # what the inventory calls it
    silence: float = 60.0  # seconds after which a silent slot is ended
    checks: GpuChecks | None = None  # of GPUs before a slot takes them
    named: bool = False  # this machine's GPUs were named one by one
    examine: Examine | None = None  # what a run may use of a host, from the host's facts
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the inventory or the campaign


class EnginePlugin(registry.Plugin, ABC):
    """An engine that a run can choose by its name in the registry.

    `remote` engines open slots on hosts of their own; the others on this machine, in place of
    ``local``. Their constructor is theirs: a run calls `open_engine`.
    """

    remote: ClassVar[bool] = True
    settings: ClassVar[Mapping[str, type]] = {}  # what a user may set, each with its type

    @classmethod
    @abstractmethod
    def open_engine(cls, post: Post, options: EngineOptions) -> Engine:
        """The running engine. Raises BenchfleetError where it cannot be used."""

    @classmethod
    def settings_problem(cls, settings: Mapping[str, Any]) -> str:
        """What is wrong with these settings, and what to do; ``""`` where nothing is."""
        for name, value in settings.items():
            if name not in cls.settings:
                return f"no setting {name!r}; {hint(name, list(cls.settings))}"
            kind = cls.settings[name]
            if type(value) is not kind and not (kind is float and type(value) is int):
                return f"{name} must be of type {kind.__name__}, not {value!r:.100}"
        return ""
