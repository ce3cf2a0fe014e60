"""A slot on a Ray node that is being opened."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from benchfleet.engines.base import SlotSpec
from benchfleet.engines.ray_cluster import Call
from benchfleet.engines.ray_process import RayProcess
from benchfleet.engines.ray_resources import Node


@dataclass(kw_only=True)
class Opening:
    """A slot from `open` to the connection of its supervisor, and what Ray has of it later."""

    spec: SlotSpec
    key: str
    node: Node
    since: float
    call: Call | None = None
    process: RayProcess | None = None
    streams: dict[str, socket.socket] = field(default_factory=dict)
    over: bool = False  # nobody waits for it any more
