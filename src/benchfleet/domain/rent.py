"""What an inventory says of rented machines."""

from __future__ import annotations

from dataclasses import dataclass

from .usage import Price


@dataclass(frozen=True, kw_only=True)
class ProviderAccess:
    """How a provider is reached."""

    name: str
    key: str = ""  # env:NAME or file:PATH; "" for the provider's usual variable
    url: str = ""  # base address of its API; "" for the usual one
    visible_within: float | None = None  # seconds until lists have a new instance; None: the usual


@dataclass(frozen=True, kw_only=True)
class RentEntry:
    """Machines of one kind that may be rented."""

    name: str
    gpu: str  # such as RTX 4090
    gpus: int = 1  # for each machine
    count: int = 1  # machines at once, at most, of all runs of a ledger
    planned: int | None = None  # of these, those of one run; None: all
    providers: tuple[str, ...] = ()
    max_price: Price | None = None  # of an hour of one machine, disk included
    disk: int = 0  # bytes
    image: str = ""
    region: str = ""
    needs_dead_man: bool = True  # False: a machine that cannot destroy itself will do
    cpu_slots: int | None = None  # slots without a GPU, instead of its GPUs
    user: str = ""  # who logs in; "": the provider's usual user
    python: str = ""  # its interpreter with benchfleet; "": benchfleet is installed there
    idle: float = 120.0  # seconds without work after which a machine is returned
    extras: tuple[str, ...] = ()  # of benchfleet, that are installed there, too
