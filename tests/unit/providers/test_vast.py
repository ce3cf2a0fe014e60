"""The plugin for Vast.ai against its simulated API: every answer is taken for what it means."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from benchfleet.providers.base import (
    CreatedBroken,
    CreateUnknown,
    GpuOffer,
    InstanceSpec,
    NotAuthorized,
    OfferGone,
    ProviderAway,
    RateLimited,
    Want,
)
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
        self.provider = VastProvider(Secret(key), client)

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


def test_an_instance_is_created_listed_and_destroyed() -> None:
    vast = Vast()
    instance = vast.provider.create(vast.cloud.offers[0], SPEC)
    (listed,) = vast.provider.list("bf-").instances
    assert (listed.id, listed.label, listed.state) == (instance, SPEC.label, "running")
    assert listed.began == vast.cloud.instances[instance].began
    taken = vast.provider.destroy(instance)
    assert taken == int(vast.cloud.now)
    assert not vast.provider.list("bf-").instances
    assert vast.provider.destroy("999") is None  # gone already


def test_the_times_that_the_provider_tells_give_its_bill() -> None:
    now = 10.5
    vast = Vast(clock=lambda: now)
    instance = vast.provider.create(vast.cloud.offers[0], SPEC)
    (listed,) = vast.provider.list("bf-").instances
    now = 12.7
    ended = vast.provider.destroy(instance)
    assert ended is not None
    assert listed.began is not None
    assert listed.hourly is not None
    assert vast.cloud.billing.cost(listed.hourly, ended - listed.began) == vast.cloud.bill() > 0


@pytest.mark.parametrize(
    ("fault", "error", "instances"),
    [
        ("refused", OfferGone, 0),
        ("busy", RateLimited, 0),
        ("away", CreateUnknown, 0),
        ("lost", CreateUnknown, 1),
        ("broken", CreatedBroken, 1),
    ],
)
def test_a_create_is_sent_once_and_its_answer_is_believed_only_where_it_is_definite(
    fault: str, error: type[Exception], instances: int
) -> None:
    vast = Vast()
    vast.fault("create", fault)
    with pytest.raises(error):
        vast.provider.create(vast.cloud.offers[0], SPEC)
    assert len(vast.cloud.creates) == 1
    assert len(vast.cloud.instances) == instances


def test_a_list_has_all_pages_or_is_none() -> None:
    vast = Vast()
    for number in range(60):
        vast.cloud.add(vast.cloud.offers[0], f"bf-{number}", "me")
    assert len(vast.provider.list("bf-").instances) == 60
    assert len(vast.provider.list("bf-5").instances) == 11
    vast.fault("list", "short")
    with pytest.raises(ProviderAway, match="59 of 60"):
        vast.provider.list("bf-")


def test_a_list_is_asked_for_again_while_the_provider_is_away() -> None:
    vast = Vast()
    vast.fault("list", "away", "away")
    assert vast.provider.list("").instances == ()
    vast.fault("list", *["away"] * 9)
    with pytest.raises(ProviderAway):
        vast.provider.list("")


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


def test_an_account_is_its_user_and_a_wrong_key_is_refused() -> None:
    assert Vast().provider.account().id == "me"
    assert Vast("other").provider.account().id == "other"
    with pytest.raises(NotAuthorized) as error:
        Vast("wr0ngwr0ng").provider.account()
    assert "wr0ng" not in str(error.value)
    assert Vast().provider.balance() == 25_000_000


def test_a_key_leaves_over_https_alone() -> None:
    with pytest.raises(Exception, match="https"):
        ApiClient("http://vast.test", Secret(KEY), Limiter({}))
