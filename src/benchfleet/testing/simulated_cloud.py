"""A cloud in memory: offers, instances, a bill, lists that lag, and faults. Nothing waits.

Time is virtual (`advance`). Amounts are millionths. The bill counts each instance from its creation
to the moment when it was destroyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchfleet.domain.rental import Account, Billing
from benchfleet.providers.base import (
    BadRequest,
    CreatedBroken,
    CreateUnknown,
    GpuOffer,
    Instance,
    InstanceSpec,
    InstanceState,
    Listing,
    OfferGone,
    Provider,
    ProviderAway,
    Want,
)
from benchfleet.providers.secret import Secret


@dataclass
class CloudInstance:
    """What really runs."""

    id: str
    label: str
    owner: str  # the account
    offer: GpuOffer
    began: float
    ended: float | None = None
    state: InstanceState = "running"
    key: str = ""  # its own, which can look at it and destroy it
    address: str = "127.0.0.1"
    port: int = 22
    traffic: int = 0  # bytes, billed at the offer's price for a GB

    @property
    def lives(self) -> bool:
        """Whether it is billed."""
        return self.ended is None


@dataclass
class Cloud:
    """The state of all instances, and what the next requests are answered.

    `faults` has, by endpoint (``list``, ``create``, ``destroy``), what happens to its next calls:
    ``away`` (no effect, no answer), ``lost`` (done, but no answer), ``ignored`` (an answer, but
    nothing is done), ``refused``, ``broken``. ``""`` is no fault.
    """

    now: float = 1_000_000.0
    lag_s: float = 0.0  # lists show the cloud as it was so long ago
    price: int = 500_000
    offers: list[GpuOffer] = field(default_factory=list)
    billing: Billing = field(default_factory=Billing)
    own_key: str = "own-key"  # how the keys of instances begin
    first_id: int = 1  # of instances
    instances: dict[str, CloudInstance] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    creates: list[str] = field(default_factory=list)  # labels of all create requests
    destroyed: list[str] = field(default_factory=list)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def fault(self, endpoint: str) -> str:
        """What happens to this call."""
        waiting = self.faults.get(endpoint)
        return waiting.pop(0) if waiting else ""

    def add(self, offer: GpuOffer, label: str, owner: str) -> CloudInstance:
        """Create an instance."""
        id = str(self.first_id + len(self.instances))
        key = f"{self.own_key}-of-{id}-{label}"
        one = CloudInstance(id=id, label=label, owner=owner, offer=offer, began=self.now, key=key)
        self.instances[id] = one
        return one

    def end(self, id: str) -> None:
        """Destroy an instance, once."""
        if self.instances[id].lives:
            self.instances[id].ended = self.now

    def visible(self, owner: str) -> list[CloudInstance]:
        """What a list of an account shows now."""
        then = self.now - self.lag_s
        return [
            one
            for one in self.instances.values()
            if one.owner == owner and one.began <= then and (one.ended is None or one.ended > then)
        ]

    @property
    def living(self) -> list[CloudInstance]:
        """The instances that are billed now."""
        return [instance for instance in self.instances.values() if instance.lives]

    def bill(self) -> int:
        """What all instances cost so far."""
        return sum(
            self.billing.cost(one.offer.hourly, (one.ended or self.now) - one.began)
            - (-one.offer.transfer_price * one.traffic // 10**9)
            for one in self.instances.values()
        )


class SimulatedProvider(Provider):
    """A provider over a `Cloud`, by the key of one account."""

    name = "simulated"
    dead_man = "none"

    def __init__(self, cloud: Cloud, key: str = "me", *, visible_within_s: float = 180.0) -> None:
        self.cloud, self.key = cloud, key
        self.visible_within_s = visible_within_s
        self.billing = cloud.billing

    @classmethod
    def open(cls, key: Secret, url: str) -> SimulatedProvider:
        return cls(Cloud(), key.reveal())

    def account(self) -> Account:
        return Account(provider=self.name, url="simulated:", id=self.key)

    def offers(self, want: Want) -> Sequence[GpuOffer]:
        offer = GpuOffer(
            provider=self.name, id="1", machine="m1", gpu=want.gpu, count=want.count,
            vram=24 << 30, price=self.cloud.price,
        )  # fmt: skip
        return [] if want.max_price is not None and offer.hourly > want.max_price else [offer]

    def create(self, offer: GpuOffer, spec: InstanceSpec) -> str:
        cloud = self.cloud
        fault = cloud.fault("create")
        cloud.creates.append(spec.label)
        if fault == "refused":
            raise OfferGone("no such ask")
        if fault == "bad":
            raise BadRequest("invalid image")
        if fault == "away":
            raise CreateUnknown("no answer")
        one = cloud.add(offer, spec.label, self.key)
        if fault == "lost":
            raise CreateUnknown("the answer was lost")
        if fault == "broken":
            one.state = "stopped"
            raise CreatedBroken("the bid was too low", one.id)
        return one.id

    def list(self, prefix: str = "") -> Listing:
        cloud = self.cloud
        if cloud.fault("list"):
            raise ProviderAway("no answer")
        listed = [_listed(one) for one in cloud.visible(self.key) if one.label.startswith(prefix)]
        return Listing(instances=tuple(listed), at=cloud.now)

    def destroy(self, instance: str) -> float | None:
        cloud = self.cloud
        fault = cloud.fault("destroy")
        if fault == "away":
            raise ProviderAway("no answer")
        cloud.destroyed.append(instance)
        one = cloud.instances.get(instance)
        if fault != "ignored" and one is not None and one.owner == self.key:
            cloud.end(instance)
        if fault == "lost":
            raise ProviderAway("the answer was lost")
        return cloud.now

    def charges(self, instance: str) -> int | None:
        one = self.cloud.instances[instance]
        end = self.cloud.now if one.ended is None else one.ended
        return self.billing.cost(one.offer.hourly, end - one.began)


def _listed(one: CloudInstance) -> Instance:
    return Instance(
        id=one.id,
        label=one.label,
        state=one.state,
        began=one.began,
        hourly=one.offer.hourly,
        address=one.address,
        port=one.port,
    )
