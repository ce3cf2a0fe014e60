"""The plugin for Vast.ai against its simulated API: what `ProviderContract` does not ask."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from benchfleet.providers.base import GpuOffer, InstanceSpec, ProviderAway, Want
from benchfleet.providers.client import ApiClient
from benchfleet.providers.limiter import Limiter
from benchfleet.providers.secret import Secret
from benchfleet.providers.vast import INTERVALS, VastProvider
from benchfleet.testing.simulated_cloud import Cloud
from benchfleet.testing.simulated_vast import VastApi

KEY = "k3yk3yk3yk3y"
SPEC = InstanceSpec(label="bf-aaaaaaaaaa-bbbbbbbb", image="ubuntu", disk=10**10, public_key="ssh")


class Vast:
    """A cloud, its API, and a provider over both without a network and without waiting."""

    def __init__(self, key: str = KEY, clock: Callable[[], float] | None = None) -> None:
        self.cloud = Cloud(offers=[offer(11, 400_000), offer(12, 300_000), offer(13, 900_000)])
        self.api = VastApi(self.cloud, {KEY: "me", "other": "other"}, clock=clock)
        self.pauses: list[float] = []
        self.limiter = Limiter(INTERVALS, clock=lambda: self.cloud.now, sleep=self._sleep)
        client = ApiClient(
            "https://vast.test",
            Secret(key),
            self.limiter,
            transport=httpx2.MockTransport(self._answer),
            sleep=self._sleep,
        )
        self.provider = VastProvider(client)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        target = request.url.raw_path.decode()
        status, headers, body = self.api.answer(
            request.method, target, dict(request.headers), request.content
        )
        return httpx2.Response(status, headers=headers, content=body)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.cloud.advance(seconds)

    def fault(self, endpoint: str, *faults: str) -> None:
        self.cloud.faults[endpoint] = list(faults)


def offer(id: int, price: int) -> GpuOffer:
    return GpuOffer(
        provider="vast", id=str(id), machine=f"m{id}", gpu="RTX 4090", count=1, vram=24 << 30,
        price=price, region="Sweden, SE", reliability=0.99,
    )  # fmt: skip


def test_offers_say_what_an_hour_costs() -> None:
    vast = Vast()
    found = vast.provider.offers(Want(gpu="RTX 4090", max_price=500_000))
    assert [(one.id, one.hourly, one.vram) for one in found] == [
        ("11", 400_000, 24 << 30),
        ("12", 300_000, 24 << 30),
    ]
    assert not vast.provider.offers(Want(gpu="RTX 4090", region="Norway"))


def test_the_times_that_the_provider_tells_give_its_bill() -> None:
    now = 10.5
    vast = Vast(clock=lambda: now)
    instance = vast.provider.create(vast.cloud.offers[0], SPEC)
    (listed,) = vast.provider.list("bf-").instances
    assert listed.began is not None
    assert listed.began == vast.cloud.instances[instance].began
    now = 12.7
    ended = vast.provider.destroy(instance)
    assert ended == 12
    assert listed.hourly is not None
    assert vast.cloud.billing.cost(listed.hourly, ended - listed.began) == vast.cloud.bill() > 0
    assert vast.provider.destroy("999") is None  # gone already


def test_a_list_that_lacks_some_says_how_many() -> None:
    vast = Vast()
    for number in range(2):
        vast.cloud.add(vast.cloud.offers[0], f"bf-{number}", "me")
    vast.fault("list", "short")
    with pytest.raises(ProviderAway, match="1 of 2"):
        vast.provider.list("bf-")


def test_a_refusal_for_too_many_requests_makes_later_ones_slower() -> None:
    vast = Vast()
    vast.fault("list", "busy")
    vast.provider.list("")
    assert vast.pauses[-1] == pytest.approx(2.75)  # its threshold, and a tenth
    vast.provider.list("")
    assert vast.pauses[-1] == pytest.approx(2.75)


def test_a_request_to_destroy_does_not_wait_behind_lists() -> None:
    vast = Vast()
    vast.provider.list("")
    before = list(vast.pauses)
    vast.provider.destroy("1")
    assert vast.pauses == before


def test_an_account_is_its_user_and_has_a_balance() -> None:
    assert Vast().provider.account().id == "me"
    assert Vast("other").provider.account().id == "other"
    assert Vast().provider.balance() == 25_000_000


def test_a_key_leaves_over_https_alone() -> None:
    with pytest.raises(Exception, match="https"):
        ApiClient("http://vast.test", Secret(KEY), Limiter({}))
