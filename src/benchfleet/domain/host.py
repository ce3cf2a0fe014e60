"""A machine that is reached over SSH, as its user describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .usage import Price

EXTRAS = ("hf", "lm-eval", "benchmarks", "inspect", "quantization")  # of benchfleet, for hosts
AUTO = 0  # slots: as many as there is room for, found out while they run


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine of an inventory: how to reach it, and what of it to use."""

    name: str  # how people, results and options call it
    address: str = ""  # that ssh connects to; "" for the name
    user: str = ""  # "" leaves it to the user's own ssh configuration, as the next three
    port: int | None = None
    jump: str = ""  # a jump host, as ssh's -J takes it
    identity: str = ""  # the file of a private key
    python: str = ""  # its interpreter; "" for the environment that bootstrap made there
    folder: str = "~/.benchfleet"  # where benchfleet keeps what it needs there
    gpus: tuple[int, ...] | None = None  # None: every one that it has
    cpu_slots: int | None = None  # or AUTO; None: one for each two cores, where it has no GPU
    slots_per_gpu: int = 1  # or AUTO
    price: Price | None = None  # of it, or of each of its GPUs
    labels: frozenset[str] = frozenset()  # by which a run chooses hosts
    paths: Mapping[str, str] = field(default_factory=dict)  # folders here that it has elsewhere
