"""What every provider must do, as a suite that any plugin can be put through.

Derive from `ProviderContract` in a test module, and name the simulated API and the provider::

    class TestMyProvider(ProviderContract):
        api = MyApi  # a SimulatedApi: the provider's HTTP interface over a Cloud

        def make_provider(self, key: Secret, client: ApiClient) -> Provider:
            return MyProvider(key, client)

Nothing waits, and no network is used. `definite` names the faults of a create request after which
nothing was created, with the error that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import httpx2
import pytest

from benchfleet.providers.base import (
    CreateUnknown,
    GpuOffer,
    InstanceSpec,
    NotAuthorized,
    OfferGone,
    Provider,
    ProviderAway,
    ProviderError,
    RateLimited,
    Want,
)
from benchfleet.providers.client import ApiClient
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.secret import Secret
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_http import SimulatedApi

KEY = "k3yk3yk3yk3y"
SPEC = InstanceSpec(
    label="bf-aaaaaaaaaa-bbbbbbbb", image="ubuntu", disk=10**10, public_key="ssh-ed25519 AAAA"
)


@dataclass
class SimulatedAccess:
    """A provider, and the cloud behind it. Pauses only move the cloud's clock."""

    cloud: Cloud
    api: SimulatedApi
    provider: Provider
    pauses: list[float]

    def fault(self, endpoint: str, *faults: str) -> None:
        """What happens to the next calls of an endpoint; see `Cloud`."""
        self.cloud.faults[endpoint] = list(faults)


class ProviderContract:
    """The behaviour of a provider; see `benchfleet.providers.base`."""

    api: ClassVar[type[SimulatedApi]]
    intervals: ClassVar[Mapping[str, float]]
    definite: ClassVar[Mapping[str, type[ProviderError]]] = {
        "refused": OfferGone,
        "busy": RateLimited,
    }
    unknown: ClassVar[Mapping[str, int]] = {"away": 0, "lost": 1}  # and how many instances it made

    def make_provider(self, key: Secret, client: ApiClient) -> Provider:
        """The provider under test, which sends its requests by `client`."""
        raise NotImplementedError

    def access(self, key: str = KEY) -> SimulatedAccess:
        """A provider with that key, over a cloud of its own with three offers."""
        cloud = Cloud(offers=[offer(11, 400_000), offer(12, 300_000), offer(13, 900_000)])
        api = self.api(cloud, {KEY: "me", "other": "other"})
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            cloud.advance(seconds)

        def answered(request: httpx2.Request) -> httpx2.Response:
            target = request.url.raw_path.decode()
            status, headers, body = api.answer(
                request.method, target, dict(request.headers), request.content
            )
            return httpx2.Response(status, headers=headers, content=body)

        client = ApiClient(
            "https://provider.test",
            Secret(key),
            Limiter(self.intervals, clock=lambda: cloud.now, sleep=sleep),
            transport=httpx2.MockTransport(answered),
            sleep=sleep,
        )
        return SimulatedAccess(cloud, api, self.make_provider(Secret(key), client), pauses)

    def offer(self, access: SimulatedAccess) -> GpuOffer:
        """The cheapest offer."""
        offers = access.provider.offers(Want(gpu="RTX 4090"))
        return min(offers, key=lambda one: one.hourly)

    def test_offers_name_the_gpu_and_what_an_hour_costs(self) -> None:
        access = self.access()
        offers = access.provider.offers(Want(gpu="RTX 4090", max_price=500_000))
        assert sorted(one.hourly for one in offers) == [300_000, 400_000]
        assert {one.vram for one in offers} == {24 << 30}
        assert {one.provider for one in offers} == {access.provider.name}
        assert not access.provider.offers(Want(gpu="RTX 4080"))
        assert not access.provider.offers(Want(gpu="RTX 4090", vram=48 << 30))

    def test_an_instance_is_created_listed_and_destroyed(self) -> None:
        access = self.access()
        instance = access.provider.create(self.offer(access), SPEC)
        (listed,) = access.provider.list("bf-").instances
        assert (listed.id, listed.label, listed.state) == (instance, SPEC.label, "running")
        assert listed.hourly == 300_000
        assert listed.address
        assert not access.provider.list("bf-other").instances
        access.provider.destroy(instance)
        assert not access.cloud.living
        assert not access.provider.list("bf-").instances
        access.provider.destroy(instance)  # gone already is no error
        access.provider.destroy("999")

    @pytest.mark.parametrize("state", ["starting", "stopped", "broken"])
    def test_an_instance_that_does_not_run_is_not_called_running(self, state: str) -> None:
        access = self.access()
        id = access.provider.create(self.offer(access), SPEC)
        access.cloud.instances[id].state = state  # type: ignore[assignment]
        (listed,) = access.provider.list("bf-").instances
        assert listed.state != "running"
        assert (listed.state == "starting") is (state == "starting")

    def test_a_create_is_sent_once_and_refusals_are_believed_only_where_they_are_definite(
        self,
    ) -> None:
        errors: dict[str, type[ProviderError]] = dict.fromkeys(self.unknown, CreateUnknown)
        for fault, error in {**errors, **self.definite}.items():
            access = self.access()
            chosen = self.offer(access)
            access.fault("create", fault)
            with pytest.raises(error):
                access.provider.create(chosen, SPEC)
            assert len(access.cloud.creates) == 1, fault
            assert len(access.cloud.instances) == self.unknown.get(fault, 0), fault

    def test_a_list_is_whole_or_it_raises(self) -> None:
        access = self.access()
        for number in range(60):
            access.cloud.add(access.cloud.offers[0], f"bf-{number}", "me")
        assert len(access.provider.list("bf-").instances) == 60
        assert len(access.provider.list("bf-5").instances) == 11
        access.fault("list", "short")
        with pytest.raises(ProviderAway):
            access.provider.list("bf-")

    def test_a_list_is_asked_for_again_while_the_provider_is_away(self) -> None:
        access = self.access()
        access.fault("list", "away", "busy")
        assert access.provider.list("").instances == ()
        access.fault("list", *["away"] * 9)
        with pytest.raises(ProviderAway):
            access.provider.list("")

    @pytest.mark.parametrize("fault", ["away", "lost", "busy"])
    def test_a_request_to_destroy_that_failed_raises(self, fault: str) -> None:
        access = self.access()
        instance = access.provider.create(self.offer(access), SPEC)
        access.fault("destroy", fault)
        with pytest.raises(ProviderError):
            access.provider.destroy(instance)

    def test_requests_keep_their_distance(self) -> None:
        access = self.access()
        access.provider.list("")
        before = len(access.pauses)
        access.provider.list("")
        assert sum(access.pauses[before:]) > 0

    def test_accounts_differ_by_key_and_a_wrong_key_is_refused_without_being_shown(self) -> None:
        mine, other = self.access(), self.access("other")
        assert mine.provider.account() == self.access().provider.account()
        assert mine.provider.account() != other.provider.account()
        with pytest.raises(NotAuthorized) as error:
            self.access("wr0ngwr0ng").provider.list("")
        assert "wr0ng" not in str(error.value)

    def test_another_accounts_instances_are_not_listed_or_destroyed(self) -> None:
        access = self.access()
        foreign = access.cloud.add(access.cloud.offers[0], "bf-foreign", "other")
        assert not access.provider.list("bf-").instances
        access.provider.destroy(foreign.id)
        assert foreign.lives


def offer(id: int, price: int) -> GpuOffer:
    """An offer of one RTX 4090 in a simulated cloud; its price is in millionths an hour."""
    return GpuOffer(
        provider="simulated", id=str(id), machine=f"m{id}", gpu="RTX 4090", count=1,
        vram=24 << 30, price=price, region="Sweden, SE", reliability=0.99,
    )  # fmt: skip
