"""The contract of a provider of rented instances.

To write a plugin, derive from `Provider`. Amounts are integers, millionths of `currency`; times are
seconds since the epoch by the provider's clock.

One rule matters more than all others: `create` sends exactly one request and never retries it. What
is not a definite refusal is `CreateUnknown`: an instance may exist, and only a list shows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from benchfleet.domain.failure import Kind
from benchfleet.domain.hardware import is_gpu
from benchfleet.domain.rental import Account, Billing
from benchfleet.errors import BenchfleetError
from benchfleet.providers.secret import Secret
from benchfleet.registry import Plugin

InstanceState = Literal["starting", "running", "stopped", "broken"]
DeadMan = Literal["destroys", "stops", "none"]


@dataclass(frozen=True, kw_only=True)
class Want:
    """What is looked for."""

    gpu: str  # such as RTX 4090
    count: int = 1
    vram: int = 0  # bytes for each GPU, at least
    disk: int = 0  # bytes
    max_price: int | None = None  # an hour, disk included
    region: str = ""

    def allows(self, offer: GpuOffer) -> bool:
        """Whether the GPU, memory, price and region of an offer are as wanted."""
        return (
            is_gpu(self.gpu, offer.gpu, offer.vram)
            and offer.vram >= self.vram
            and (self.max_price is None or offer.hourly <= self.max_price)
            and self.region.casefold() in offer.region.casefold()
        )


@dataclass(frozen=True, kw_only=True)
class GpuOffer:
    """An instance that can be rented now."""

    provider: str
    id: str
    machine: str  # the provider's id of the machine
    gpu: str
    count: int
    vram: int  # bytes for each GPU
    price: int  # an hour
    storage_price: int = 0  # an hour, for the disk that was asked for
    transfer_price: int = 0  # for a GB
    currency: str = "USD"
    region: str = ""
    reliability: float | None = None
    driver: str = ""
    cuda: str = ""  # the newest version that its driver can run
    image: str = ""  # the provider's own, where it has several

    @property
    def hourly(self) -> int:
        """All that is billed by time."""
        return self.price + self.storage_price


@dataclass(frozen=True, kw_only=True)
class InstanceSpec:
    """What is created from an offer."""

    label: str
    image: str
    disk: int  # bytes
    public_key: str
    has_timer: bool = False  # it is to destroy itself when nobody is left
    limit_price: int | None = None  # an hour


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance as a list shows it."""

    id: str
    label: str
    state: InstanceState
    began: float | None = None  # billed from then; None: the provider does not say
    hourly: int | None = None
    address: str = ""
    port: int = 22
    user: str = "root"
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A complete list of an account's instances."""

    instances: tuple[Instance, ...]
    at: float  # when it was answered


class Provider(Plugin, ABC):
    """An account at a provider. Methods block, and raise `ProviderError`."""

    name: ClassVar[str]
    key_variable: ClassVar[str] = ""  # where the inventory names no key; "": it needs none
    currency: ClassVar[str] = "USD"
    visible_within_s: float = 180.0  # after creation, each list has the instance
    dead_man: ClassVar[DeadMan] = "none"  # what an instance can do to itself
    billing: Billing = Billing()
    console: ClassVar[str] = ""  # where a person sees what is rented
    boots_system: ClassVar[bool] = False  # True: virtual machines, which take longer to start

    @classmethod
    @abstractmethod
    def open(cls, key: Secret, url: str) -> Provider:
        """The account of a key; `url` is the base address of the API, "" for the usual one."""

    @abstractmethod
    def account(self) -> Account:
        """The account that the key belongs to."""

    @abstractmethod
    def offers(self, want: Want) -> Sequence[GpuOffer]:
        """What can be rented now; the first page is enough."""

    @abstractmethod
    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        """Send exactly one request; return the id of the instance."""

    @abstractmethod
    def list(self, prefix: str = "") -> Listing:
        """All instances whose label begins so, from all pages. An incomplete list raises."""

    @abstractmethod
    def destroy(self, instance: str) -> float | None:
        """Ask for the end of an instance; gone already is no error.

        Returns when the provider took it, or None. That is no proof: only a list is.
        """

    def charges(self, instance: str) -> int | None:
        """What the provider has billed for it; None if it does not say."""
        return None

    def balance(self) -> int | None:
        """The credit that is left; None if the provider does not say."""
        return None


class ProviderError(BenchfleetError):
    """A provider did not do what was asked."""

    kind: ClassVar[Kind] = "no_capacity"  # of the failure that it is
    lasts: ClassVar[bool] = False  # True: a later request would be refused, too


class NotAuthorized(ProviderError):
    """The provider refuses the key."""

    kind = "wrong_key"
    lasts = True


class NoCredit(ProviderError):
    """The account has no credit."""

    lasts = True


class BadRequest(ProviderError):
    """The provider refuses the request, and would refuse it again."""

    kind = "bad_request"
    lasts = True


class OfferGone(ProviderError):
    """The offer is not available any more."""


class RateLimited(ProviderError):
    """The provider wants fewer requests."""

    kind = "rate_limited"

    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class ProviderAway(ProviderError):
    """The provider did not answer, or not in a form that can be read. A later call may succeed."""


class CreateUnknown(ProviderError):
    """It is not known whether an instance was created."""


class CreatedBroken(ProviderError):
    """An instance was created, and the answer says that it cannot be used."""

    def __init__(self, message: str, instance: str) -> None:
        super().__init__(message)
        self.instance = instance
