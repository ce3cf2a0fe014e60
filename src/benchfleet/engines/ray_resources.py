"""The nodes of a Ray cluster with what they have, and what an actor asks for: values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node that is alive."""

    id: str
    name: str  # how results and messages call it
    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return int(self.resources.get("GPU", 0))

    @property
    def cpus(self) -> float:
        return self.resources.get("CPU", 0.0)

    @property
    def memory(self) -> int:
        """The bytes that Ray gives out."""
        return int(self.resources.get("memory", 0))

    @property
    def accelerator(self) -> str:
        """The type of its GPUs, such as ``H100``; ``""`` if Ray does not know it."""
        types = [n for n in self.resources if n.startswith("accelerator_type:")]
        return types[0].partition(":")[2] if types else ""


@dataclass(frozen=True, kw_only=True)
class Share:
    """What an actor asks Ray for."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory: int = 0  # bytes; 0: not reserved

    @property
    def options(self) -> dict[str, Any]:
        memory = {"memory": self.memory} if self.memory else {}
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, **memory}
